//! What one sandbox has of interception: its authority, and how far it is in the cassettes it replays.

use std::collections::BTreeMap;
use std::fmt;
use std::sync::{Arc, Mutex, OnceLock, PoisonError};

use tokio_rustls::rustls::pki_types::CertificateDer;
use tokio_rustls::rustls::{ClientConfig, ServerConfig};

use super::authority::{Authority, AuthorityError, AuthoritySetup};
use crate::network::cassette::{CassetteError, CassetteName, Cassettes, Replay};
use crate::network::gateway;
use crate::network::name::HostName;

/// Where programs of a sandbox find the certificates to trust, its own authority's among them.
pub const CA_FILE: &str = "/etc/rekindle/ca.pem";
/// Variables by which libraries and programs are told where that is.
pub const CA_VARIABLES: [&str; 9] = [
    "SSL_CERT_FILE",
    "REQUESTS_CA_BUNDLE",
    "CURL_CA_BUNDLE",
    "GIT_SSL_CAINFO",
    "PIP_CERT",
    "CARGO_HTTP_CAINFO",
    "NODE_EXTRA_CA_CERTS",
    "DENO_CERT",
    "AWS_CA_BUNDLE",
];

/// Whom servers are believed by while they are recorded: this host's certificates, read when they are first needed.
#[derive(Default)]
pub(in crate::network) struct Trust(OnceLock<Result<Arc<ClientConfig>, String>>);

impl Trust {
    /// Waits for the disk, the first time.
    pub(super) fn config(&self) -> Result<Arc<ClientConfig>, String> {
        self.0.get_or_init(|| gateway::trust(None, gateway::native).map(Arc::new)).clone()
    }

    /// In the worker: these certificates.
    pub(in crate::network) fn in_these(certificates: &[CertificateDer<'static>]) -> Self {
        Self(OnceLock::from(gateway::trust(Some(certificates), Vec::new).map(Arc::new)))
    }

    #[cfg(test)]
    pub(super) fn of(config: ClientConfig) -> Self {
        Self(OnceLock::from(Ok(Arc::new(config))))
    }
}

impl fmt::Debug for Trust {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Trust").finish_non_exhaustive()
    }
}

/// What one sandbox has of interception.
#[derive(Debug)]
pub struct Interception {
    authority: Authority,
    pub(super) cassettes: Arc<Cassettes>,
    pub(super) trust: Arc<Trust>,
    replays: Mutex<BTreeMap<CassetteName, Arc<Replay>>>,
}

impl Interception {
    pub(in crate::network) fn new(
        cassettes: Arc<Cassettes>,
        trust: Arc<Trust>,
    ) -> Result<Self, AuthorityError> {
        Ok(Self { authority: Authority::new()?, cassettes, trust, replays: Mutex::default() })
    }

    /// What the worker needs to serve the sandbox's connections.
    pub(in crate::network) fn hand_over(&self) -> AuthoritySetup {
        self.authority.hand_over()
    }

    /// In the worker: that of a sandbox whose authority was handed over.
    pub(in crate::network) fn receive(
        authority: &AuthoritySetup,
        (cassettes, trust): (Arc<Cassettes>, Arc<Trust>),
    ) -> Result<Self, AuthorityError> {
        let authority = Authority::receive(authority)?;
        Ok(Self { authority, cassettes, trust, replays: Mutex::default() })
    }

    /// The certificate that the sandbox's programs have to trust.
    #[must_use]
    pub fn ca_pem(&self) -> &str {
        self.authority.pem()
    }

    pub(super) fn server(&self, name: &HostName) -> Result<Arc<ServerConfig>, AuthorityError> {
        self.authority.server(name)
    }

    /// How far it is in a cassette. Waits for the disk, the first time.
    pub(super) fn replay(&self, name: &CassetteName) -> Result<Arc<Replay>, CassetteError> {
        let mut replays = self.replays.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(replay) = replays.get(name) {
            return Ok(Arc::clone(replay));
        }
        let replay = Arc::new(self.cassettes.replay(name)?);
        replays.insert(name.clone(), Arc::clone(&replay));
        Ok(replay)
    }
}
