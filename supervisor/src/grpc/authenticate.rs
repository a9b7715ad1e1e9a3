//! Who calls: a token's tenant, or whoever may open the socket. What the caller hears of a refusal is always the
//! same; the audit log knows the difference.

use std::sync::Arc;
use std::time::Instant;

use jiff::Timestamp;
use tonic::codegen::http::HeaderMap;

use super::connection::Peer;
use crate::config::tokens::{Denied, Scope, Token, TokenFile};
use crate::service::{Caller, Quotas, Scopes};

/// The scheme of the `authorization` header.
const BEARER: &str = "Bearer ";
/// Longest header that is looked at.
const MAX_HEADER: usize = 512;

/// Why a caller is not let in, for the audit log.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Refused {
    /// It showed no token and needs one.
    NoToken,
    /// What it showed is no token.
    Malformed,
    /// It showed a token that is not taken.
    Token(Denied),
}

impl Refused {
    pub(super) fn word(&self) -> &'static str {
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
    tokens: Option<TokenFile>,
    socket_requires_token: bool,
}

impl Authenticator {
    /// Lets in whoever has a token of this file, and unless told otherwise whoever may open the socket.
    #[must_use]
    pub fn new(tokens: Option<TokenFile>, socket_requires_token: bool) -> Arc<Self> {
        Arc::new(Self { tokens, socket_requires_token })
    }

    /// The tokens, for whoever reloads them.
    #[must_use]
    pub fn tokens(&self) -> Option<&TokenFile> {
        self.tokens.as_ref()
    }

    /// Whether a caller on the socket is let in without a token.
    pub(super) fn trusts_socket(&self) -> bool {
        !self.socket_requires_token
    }

    pub(super) fn authenticate(&self, peer: &Peer, headers: &HeaderMap) -> Result<Caller, Refused> {
        let Some(header) = headers.get("authorization") else {
            return match peer {
                Peer::Socket { .. } if self.trusts_socket() => Ok(Caller::local()),
                Peer::Socket { .. } | Peer::Tcp { .. } => Err(Refused::NoToken),
            };
        };
        let header = header.to_str().ok().filter(|text| text.len() <= MAX_HEADER);
        let secret = header.and_then(|text| text.strip_prefix(BEARER)).ok_or(Refused::Malformed)?;
        let Some(file) = &self.tokens else { return Err(Refused::Token(Denied::Unknown)) };
        match file.refresh_if_changed(Instant::now()) {
            Some(Ok(_)) => tracing::info!("the tokens were read again"),
            Some(Err(error)) => {
                tracing::error!(%error, "the tokens could not be read again; the old ones count");
            }
            None => {}
        }
        let tokens = file.tokens();
        tokens.find(secret, Timestamp::now()).map(caller).map_err(Refused::Token)
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
            cpu_millis: token.quota.max_cpu_millis,
            memory_mib: token.quota.max_memory_mib,
            disk_mib: token.quota.max_disk_mib,
        },
    }
}
