//! The tokens that are in force, and the one question asked of them.

use std::collections::BTreeSet;
use std::fs::OpenOptions;
use std::io::Read as _;
use std::os::unix::fs::{OpenOptionsExt as _, PermissionsExt as _};
use std::path::Path;

use jiff::Timestamp;
use serde::Deserialize;
use subtle::{Choice, ConditionallySelectable as _, ConstantTimeEq as _};

use super::secret::{from_hex, sum};
use super::token::check_tenant;
use super::{Quota, Scope, Token, TokenId, TokensError};

/// Longest secret that is looked at: the format has at most 110 characters.
const MAX_SECRET: usize = 256;
/// Largest tokens file.
const MAX_FILE: u64 = 4 << 20;
/// Longest complaint about a file, which may quote a line of it.
const MAX_COMPLAINT: usize = 1024;

/// Why a caller's token is not taken. What the caller hears does not tell them apart; the audit log does.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum Denied {
    /// No such token.
    #[error("the token is not known")]
    Unknown,
    /// Its time is over.
    #[error("token {id} has expired")]
    Expired {
        /// Whose.
        id: TokenId,
    },
}

/// All tokens of a file.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Tokens {
    entries: Vec<Token>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct RawFile {
    #[serde(default)]
    token: Vec<RawToken>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct RawToken {
    id: TokenId,
    sha256: String,
    tenant: String,
    scopes: Vec<Scope>,
    max_sandboxes: Option<u32>,
    max_milli_cpus: Option<u64>,
    max_memory_mib: Option<u64>,
    max_disk_mib: Option<u64>,
    max_gateway_cost_per_day: Option<u64>,
    max_gateway_requests_per_minute: Option<u32>,
    #[serde(default)]
    networks: Vec<String>,
    #[serde(default)]
    gateway: Vec<String>,
    #[serde(default = "yes")]
    root: bool,
    expires: Option<String>,
}

/// A sandbox is its holder's alone: what is not said is allowed.
fn yes() -> bool {
    true
}

impl Tokens {
    /// Reads a tokens file, which must not be open to everybody.
    ///
    /// # Errors
    /// When it cannot be read, is exposed, or is not a tokens file.
    pub fn load(path: &Path) -> Result<Self, TokensError> {
        let io = |source| TokensError::Io { operation: "read", path: path.to_owned(), source };
        // Nobody waits for the other end of a pipe.
        let file = OpenOptions::new().read(true).custom_flags(libc::O_NONBLOCK).open(path).map_err(io)?;
        // The open file is asked, not the path: it cannot be exchanged in between.
        let data = file.metadata().map_err(io)?;
        if !data.is_file() {
            return Err(TokensError::NotAFile { path: path.to_owned() });
        }
        let mode = data.permissions().mode() & 0o7777;
        if mode & 0o007 != 0 {
            return Err(TokensError::Exposed { path: path.to_owned(), mode });
        }
        let mut text = String::new();
        let invalid = |message| TokensError::Invalid { path: path.to_owned(), message };
        let read = file.take(MAX_FILE + 1).read_to_string(&mut text).map_err(io)?;
        if read as u64 > MAX_FILE {
            return Err(invalid(format!("it is larger than {} MiB", MAX_FILE >> 20)));
        }
        Self::parse(&text).map_err(|message| invalid(shortened(message)))
    }

    /// Reads the text of a tokens file.
    ///
    /// # Errors
    /// What is wrong with it.
    pub fn parse(text: &str) -> Result<Self, String> {
        let raw: RawFile = toml::from_str(text).map_err(|error| error.to_string().trim_end().to_owned())?;
        let entries: Vec<Token> = raw.token.into_iter().map(token).collect::<Result<_, _>>()?;
        let mut ids = BTreeSet::new();
        let mut sums = BTreeSet::new();
        for entry in &entries {
            if !ids.insert(&entry.id) {
                return Err(format!("there are two tokens {}", entry.id));
            }
            if !sums.insert(entry.sha256) {
                return Err(format!("token {} has the sha256 of another", entry.id));
            }
        }
        Ok(Self { entries })
    }

    /// The token of a presented secret.
    ///
    /// Every entry is compared, each in constant time, whatever was found before: how long it takes says
    /// nothing about which entry matched or how close a guess was.
    ///
    /// # Errors
    /// When there is none, or its time is over.
    pub fn find(&self, presented: &str, now: Timestamp) -> Result<&Token, Denied> {
        if presented.len() > MAX_SECRET {
            return Err(Denied::Unknown);
        }
        let sum = sum(presented);
        let mut found = Choice::from(0);
        let mut at = 0_u64;
        for (index, entry) in (0_u64..).zip(&self.entries) {
            let same = entry.sha256.ct_eq(&sum);
            at.conditional_assign(&index, same);
            found |= same;
        }
        let entry = usize::try_from(at).ok().and_then(|at| self.entries.get(at));
        match entry.filter(|_| bool::from(found)) {
            Some(token) if token.is_expired(now) => Err(Denied::Expired { id: token.id.clone() }),
            Some(token) => Ok(token),
            None => Err(Denied::Unknown),
        }
    }

    /// All of them, in the order of the file.
    pub fn iter(&self) -> impl Iterator<Item = &Token> {
        self.entries.iter()
    }

    /// The token as it is now, if it still lets in whoever showed it and allows all that it did.
    #[must_use]
    pub fn in_force(&self, shown: &Token, now: Timestamp) -> Option<&Token> {
        let token = self.get(&shown.id)?;
        let same = token.sha256 == shown.sha256 && token.tenant == shown.tenant;
        let allows = shown.scopes.iter().all(|scope| token.allows(*scope))
            && shown.networks.iter().all(|network| token.networks.contains(network))
            && shown.gateway.iter().all(|service| token.gateway.contains(service))
            && (token.root || !shown.root);
        (same && allows && !token.is_expired(now)).then_some(token)
    }

    /// The one of this id.
    #[must_use]
    pub fn get(&self, id: &TokenId) -> Option<&Token> {
        self.entries.iter().find(|token| token.id == *id)
    }
}

/// A complaint that fits a log.
fn shortened(mut message: String) -> String {
    if message.len() > MAX_COMPLAINT {
        message.truncate(message.floor_char_boundary(MAX_COMPLAINT));
        message.push_str(" ...");
    }
    message
}

fn token(raw: RawToken) -> Result<Token, String> {
    let RawToken {
        id,
        sha256,
        tenant,
        mut scopes,
        max_sandboxes,
        max_milli_cpus,
        max_memory_mib,
        max_disk_mib,
        max_gateway_cost_per_day,
        max_gateway_requests_per_minute,
        networks,
        gateway,
        root,
        expires,
    } = raw;
    let about = |message: String| format!("token {id}: {message}");
    check_tenant(&tenant).map_err(about)?;
    if scopes.is_empty() {
        return Err(about("scopes is empty, so it allows nothing".to_owned()));
    }
    scopes.sort();
    scopes.dedup();
    if max_gateway_requests_per_minute == Some(0) {
        return Err(about(
            "max_gateway_requests_per_minute is 0: leave gateway out to allow no request".to_owned(),
        ));
    }
    let time = |text: String| {
        text.parse::<Timestamp>()
            .map_err(|_| about(format!("expires {text:?} is not a time such as \"2030-01-31T00:00:00Z\"")))
    };
    Ok(Token {
        sha256: from_hex(&sha256).map_err(about)?,
        expires: expires.map(time).transpose()?,
        quota: Quota {
            max_sandboxes,
            max_milli_cpus,
            max_memory_mib,
            max_disk_mib,
            max_gateway_cost_per_day,
            max_gateway_requests_per_minute,
        },
        networks,
        gateway,
        root,
        id,
        tenant,
        scopes,
    })
}
