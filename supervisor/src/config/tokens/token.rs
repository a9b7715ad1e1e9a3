//! One token as the file has it.

use std::fmt;
use std::str::FromStr;

use jiff::Timestamp;
use serde::{Deserialize, Serialize};

/// Longest id and tenant.
const MAX_WORD: usize = 63;

/// A token's id: 1 to 63 of `a-z`, `0-9` and `-`. It has no `_`, so that a secret can be taken apart.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct TokenId(String);

impl TokenId {
    /// The id as text.
    #[must_use]
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl FromStr for TokenId {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        Self::try_from(text.to_owned())
    }
}

impl TryFrom<String> for TokenId {
    type Error = String;

    fn try_from(text: String) -> Result<Self, String> {
        if is_word(&text) { Ok(Self(text)) } else { Err(not_a_word("token id", &text)) }
    }
}

impl From<TokenId> for String {
    fn from(id: TokenId) -> Self {
        id.0
    }
}

impl fmt::Display for TokenId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(&self.0)
    }
}

fn is_word(text: &str) -> bool {
    let plain = |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit() || byte == b'-';
    (1..=MAX_WORD).contains(&text.len()) && !text.starts_with('-') && text.bytes().all(plain)
}

fn not_a_word(what: &str, text: &str) -> String {
    let shown: String = text.chars().take(MAX_WORD + 1).collect();
    format!("{shown:?} is not a {what}: use 1 to {MAX_WORD} of a-z, 0-9 and -, not beginning with -")
}

/// The tenant of callers that come over the socket without a token. No token is made for it: its holder would see
/// and enter the sandboxes of who runs the host.
pub const LOCAL_TENANT: &str = "local";

/// Checks the name of a tenant: a plain word, because it becomes a label of metrics and a field of logs.
pub(super) fn check_tenant(tenant: &str) -> Result<(), String> {
    if tenant == LOCAL_TENANT {
        return Err(format!(
            "the tenant {LOCAL_TENANT:?} is who uses the socket without a token: use another name"
        ));
    }
    if is_word(tenant) { Ok(()) } else { Err(not_a_word("tenant", tenant)) }
}

/// What a token allows.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Scope {
    /// Make and end sandboxes.
    Create,
    /// Run programs in them.
    Exec,
    /// Read and write their files.
    Files,
    /// Everything of its own tenant; of others it looks at and destroys sandboxes, and sees the host.
    Admin,
}

impl Scope {
    /// All of them.
    pub const ALL: [Self; 4] = [Self::Create, Self::Exec, Self::Files, Self::Admin];

    /// The word in the file.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Create => "create",
            Self::Exec => "exec",
            Self::Files => "files",
            Self::Admin => "admin",
        }
    }
}

impl FromStr for Scope {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        Self::ALL
            .into_iter()
            .find(|scope| scope.as_str() == text)
            .ok_or_else(|| format!("{text:?} is not a scope: use create, exec, files or admin"))
    }
}

impl fmt::Display for Scope {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

/// The most a token's holder may have at a time; `None` is no limit of its own.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize)]
pub struct Quota {
    /// Sandboxes.
    pub max_sandboxes: Option<u32>,
    /// Thousandths of a core.
    pub max_milli_cpus: Option<u64>,
    /// Memory in MiB.
    pub max_memory_mib: Option<u64>,
    /// Scratch disks in MiB.
    pub max_disk_mib: Option<u64>,
    /// Cost at the gateway on one day of UTC.
    pub max_gateway_cost_per_day: Option<u64>,
    /// Requests to the gateway in a minute.
    pub max_gateway_requests_per_minute: Option<u32>,
}

/// One entry of the file.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Token {
    /// Its id, which may be shown.
    pub id: TokenId,
    /// SHA-256 of the secret.
    pub sha256: [u8; 32],
    /// Whose sandboxes it sees.
    pub tenant: String,
    /// What it allows.
    pub scopes: Vec<Scope>,
    /// How much its holder may use.
    pub quota: Quota,
    /// The network policies its holder may choose; `*` stands for all. Without one its sandboxes have no network.
    pub networks: Vec<String>,
    /// The services of the gateway its holder may use; `*` stands for all.
    pub gateway: Vec<String>,
    /// Whether its holder may be root in its sandboxes, where their template allows it.
    pub root: bool,
    /// When it stops working.
    pub expires: Option<Timestamp>,
}

impl Token {
    /// Whether it allows `scope`; an administrator may do everything.
    #[must_use]
    pub fn allows(&self, scope: Scope) -> bool {
        self.scopes.contains(&scope) || self.scopes.contains(&Scope::Admin)
    }

    /// Whether its time is over.
    #[must_use]
    pub fn is_expired(&self, now: Timestamp) -> bool {
        self.expires.is_some_and(|expires| expires <= now)
    }
}
