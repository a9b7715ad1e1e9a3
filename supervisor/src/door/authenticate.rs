//! Who calls: a token's tenant, or whoever may open the socket. What the caller hears of a refusal is always the
//! same; the audit log knows the difference.

use std::io;
use std::sync::{Arc, OnceLock};

use hyper::http::HeaderMap;
use jiff::Timestamp;

use super::access::{AccessKey, OPERATOR, Purpose};
use super::connection::Peer;
use super::ports::{PortsAt, SandboxPorts};
use super::revoke::Standing;
use crate::config::refresh::Refresh;
use crate::config::tokens::{Denied, Scope, Token, TokenFile, TokenId};
use crate::network::Allowance;
use crate::service::{self, Caller, Choice, Quotas, SandboxState, SandboxView, Scopes};
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
    /// What access tokens of sandboxes are made with.
    pub(crate) access: AccessKey,
    /// Where ports of sandboxes are reached, once they are.
    ports: OnceLock<PortsAt>,
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
    /// When there can be no thread that looks at the file, or no key.
    pub fn new(tokens: Option<TokenFile>, socket_requires_token: bool) -> io::Result<Arc<Self>> {
        let kept = |file: TokenFile| {
            let file = Arc::new(file);
            file.keep_current().map(|refresh| (file, refresh))
        };
        Ok(Arc::new(Self {
            tokens: tokens.map(kept).transpose()?,
            socket_requires_token,
            access: AccessKey::random().map_err(|error| io::Error::other(error.to_string()))?,
            ports: OnceLock::new(),
        }))
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

    /// The access token of a sandbox for who calls.
    pub(crate) fn access_token(&self, purpose: Purpose, sandbox: &str, caller: &Caller) -> String {
        self.access.token(purpose, sandbox, caller.token.as_deref().unwrap_or(OPERATOR))
    }

    /// Lets in whoever shows an access token of this sandbox, as who it was given to.
    pub(crate) fn by_access_token(
        &self,
        purpose: Purpose,
        sandbox: &str,
        shown: &str,
    ) -> Result<Admitted, Refused> {
        match self.access.check(purpose, sandbox, shown).ok_or(Refused::Malformed)? {
            OPERATOR if self.trusts_socket() => Ok(Admitted { caller: Caller::local(), standing: None }),
            id => self.by_id(id),
        }
    }

    /// Has callers told where ports of sandboxes are reached. The first that says so is believed.
    pub(crate) fn serves_ports(&self, at: PortsAt) {
        let _ = self.ports.set(at);
    }

    /// How a caller reaches what programs in its own sandbox serve; `None` where nobody serves ports, where it may not
    /// reach them, and once the sandbox has ended.
    pub(crate) fn ports(&self, caller: &Caller, view: &SandboxView) -> Option<SandboxPorts> {
        let at = self.ports.get()?;
        let there = matches!(view.state, SandboxState::Running | SandboxState::Paused);
        let may = caller.tenant == view.tenant && caller.scopes.has(service::Scope::Exec);
        let id = view.id.as_str();
        (there && may)
            .then(|| SandboxPorts { url: at.url(id), token: self.access_token(Purpose::Traffic, id, caller) })
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
            gateway: Allowance {
                cost_per_day: token.quota.max_gateway_cost_per_day,
                per_minute: token.quota.max_gateway_requests_per_minute,
            },
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

#[cfg(test)]
mod tests {
    //! Whom an access token lets in.

    use super::*;

    #[tokio::test]
    async fn who_uses_the_socket_can_be_sent_to_a_sandbox_as_long_as_the_socket_is_trusted() {
        let local = Caller::local();
        let trusting = Authenticator::new(None, false).expect("an authenticator");
        let shown = trusting.access_token(Purpose::Traffic, "sb-1", &local);
        let admitted = trusting.by_access_token(Purpose::Traffic, "sb-1", &shown).expect("let in");
        assert_eq!((admitted.caller, admitted.standing.is_none()), (local.clone(), true));
        for (purpose, sandbox) in [(Purpose::Traffic, "sb-2"), (Purpose::Envd, "sb-1")] {
            let refused = trusting.by_access_token(purpose, sandbox, &shown).expect_err("another's");
            assert_eq!(refused, Refused::Malformed);
        }
        let wary = Authenticator::new(None, true).expect("an authenticator");
        let shown = wary.access_token(Purpose::Traffic, "sb-1", &local);
        let refused = wary.by_access_token(Purpose::Traffic, "sb-1", &shown).expect_err("needs a token");
        assert_eq!(refused, Refused::Token(Denied::Unknown));
    }
}
