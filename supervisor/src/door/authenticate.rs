//! Who calls: a token's tenant, or whoever may open the socket. What the caller hears of a refusal is always the
//! same; the audit log knows the difference.

use std::io;
use std::sync::Arc;

use hyper::http::HeaderMap;
use jiff::Timestamp;

use super::connection::Peer;
use super::revoke::Standing;
use crate::config::refresh::Refresh;
use crate::config::tokens::{Denied, Scope, Token, TokenFile, TokenId};
use crate::service::{Caller, Choice, Quotas, Scopes};
use crate::telemetry::Origin;

/// The scheme of the `authorization` header.
const BEARER: &str = "Bearer ";
/// Longest header that is looked at.
const MAX_HEADER: usize = 512;

/// Why a caller is not let in, for the audit log.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Refused {
    /// It showed no token and needs one.
    NoToken,
    /// What it showed is no token.
    Malformed,
    /// It showed a token that is not taken.
    Token(Denied),
}

impl Refused {
    pub(crate) fn word(&self) -> &'static str {
        match self {
            Self::NoToken => "no_token",
            Self::Malformed => "malformed_token",
            Self::Token(Denied::Unknown) => "unknown_token",
            Self::Token(Denied::Expired { .. }) => "expired_token",
        }
    }
}

/// Finds out who calls, from the headers alone.
#[derive(Debug)]
pub struct Authenticator {
    tokens: Option<(Arc<TokenFile>, Refresh)>,
    socket_requires_token: bool,
}

/// A caller that is let in.
#[derive(Debug)]
pub(crate) struct Admitted {
    pub caller: Caller,
    /// What it is let in by; `None` for who may open the socket.
    pub standing: Option<Standing>,
}

impl Authenticator {
    /// Lets in whoever has a token of this file, which is kept current, and unless told otherwise whoever may
    /// open the socket.
    ///
    /// # Errors
    /// When there can be no thread that looks at the file.
    pub fn new(tokens: Option<TokenFile>, socket_requires_token: bool) -> io::Result<Arc<Self>> {
        let kept = |file: TokenFile| {
            let file = Arc::new(file);
            file.keep_current().map(|refresh| (file, refresh))
        };
        Ok(Arc::new(Self { tokens: tokens.map(kept).transpose()?, socket_requires_token }))
    }

    /// Has the tokens read again. Never waits for the disk.
    pub fn reload(&self) {
        if let Some((_, refresh)) = &self.tokens {
            refresh.ask();
        }
    }

    /// Whether a caller on the socket is let in without a token.
    pub(crate) fn trusts_socket(&self) -> bool {
        !self.socket_requires_token
    }

    pub(crate) fn authenticate(&self, peer: &Peer, headers: &HeaderMap) -> Result<Admitted, Refused> {
        let Some(header) = headers.get("authorization") else {
            return match peer {
                Peer::Socket { .. } if self.trusts_socket() => {
                    Ok(Admitted { caller: Caller::local(), standing: None })
                }
                Peer::Socket { .. } | Peer::Tcp { .. } => Err(Refused::NoToken),
            };
        };
        let header = header.to_str().ok().filter(|text| text.len() <= MAX_HEADER);
        let secret = header.and_then(|text| text.strip_prefix(BEARER)).ok_or(Refused::Malformed)?;
        self.by_secret(secret)
    }

    /// Lets in whoever shows the secret of a token.
    pub(crate) fn by_secret(&self, secret: &str) -> Result<Admitted, Refused> {
        let Some((file, _)) = &self.tokens else { return Err(Refused::Token(Denied::Unknown)) };
        let tokens = file.subscribe();
        let token = tokens.borrow().find(secret, Timestamp::now()).cloned().map_err(Refused::Token)?;
        Ok(Admitted { caller: caller(&token), standing: Some(Standing { token, tokens }) })
    }

    /// The ids of a tenant's tokens.
    pub(crate) fn ids_of(&self, tenant: &str) -> Vec<String> {
        let Some((file, _)) = &self.tokens else { return Vec::new() };
        let tokens = file.subscribe();
        let tokens = tokens.borrow();
        let of_tenant = tokens.iter().filter(|token| token.tenant == tenant);
        of_tenant.map(|token| token.id.as_str().to_owned()).collect()
    }

    /// Lets in on the word of a token's id, for who has shown in another way that the token's holder sent them.
    pub(crate) fn by_id(&self, id: &str) -> Result<Admitted, Refused> {
        let unknown = || Refused::Token(Denied::Unknown);
        let (Some((file, _)), Ok(id)) = (&self.tokens, id.parse::<TokenId>()) else { return Err(unknown()) };
        let tokens = file.subscribe();
        let token = tokens.borrow().get(&id).cloned().ok_or_else(unknown)?;
        if token.is_expired(Timestamp::now()) {
            return Err(Refused::Token(Denied::Expired { id }));
        }
        Ok(Admitted { caller: caller(&token), standing: Some(Standing { token, tokens }) })
    }
}

fn caller(token: &Token) -> Caller {
    Caller {
        tenant: token.tenant.clone(),
        token: Some(token.id.as_str().to_owned()),
        scopes: Scopes {
            create: token.allows(Scope::Create),
            exec: token.allows(Scope::Exec),
            files: token.allows(Scope::Files),
            admin: token.allows(Scope::Admin),
        },
        quotas: Quotas {
            sandboxes: token.quota.max_sandboxes.map(u64::from),
            milli_cpus: token.quota.max_milli_cpus,
            memory_mib: token.quota.max_memory_mib,
            disk_mib: token.quota.max_disk_mib,
        },
        networks: choice(&token.networks),
        gateway: choice(&token.gateway),
        root: token.root,
        origin: Origin::default(),
    }
}

/// What a token's list of names allows.
fn choice(names: &[String]) -> Choice {
    match names.iter().any(|name| name == "*") {
        true => Choice::All,
        false => Choice::Named(names.to_vec()),
    }
}
