//! What one sandbox has of interception: its authority, and how far it is in the cassettes it replays.

use std::collections::BTreeMap;
use std::fmt;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::sync::{Arc, Mutex, OnceLock, PoisonError};

use tokio_rustls::rustls::{ClientConfig, ServerConfig};

use super::authority::{Authority, AuthorityError};
use crate::network::cassette::{CassetteError, CassetteName, Cassettes, NotRecorded, Replay};
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
    /// Whether it was warned that something is not recorded.
    warned: AtomicBool,
}

impl Interception {
    pub(in crate::network) fn new(
        cassettes: Arc<Cassettes>,
        trust: Arc<Trust>,
    ) -> Result<Self, AuthorityError> {
        Ok(Self {
            authority: Authority::new()?,
            cassettes,
            trust,
            replays: Mutex::default(),
            warned: AtomicBool::new(false),
        })
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

    /// Says that an exchange is not in its cassette. A guest decides how often, so only the first time is a warning.
    pub(super) fn not_recorded(&self, cassette: &CassetteName, host: &str, why: &NotRecorded) {
        if self.warned.swap(true, Relaxed) {
            tracing::debug!(%cassette, host, %why, "an exchange is not recorded");
        } else {
            tracing::warn!(%cassette, host, %why, "an exchange is not recorded; later ones of this sandbox are told at debug");
        }
    }
}
