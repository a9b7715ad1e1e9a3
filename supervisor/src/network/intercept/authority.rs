//! The certificate authority of one sandbox, and what a server of a name speaks TLS with under it.

use std::collections::HashMap;
use std::fmt;
use std::sync::{Arc, Mutex, PoisonError};

use rcgen::{
    BasicConstraints, CertificateParams, DnType, ExtendedKeyUsagePurpose, IsCa, Issuer, KeyPair,
    KeyUsagePurpose,
};
use serde::{Deserialize, Serialize};
use tokio_rustls::rustls::pki_types::{PrivateKeyDer, PrivatePkcs8KeyDer};
use tokio_rustls::rustls::{self, ServerConfig};

use crate::network::name::HostName;

/// Names that are remembered; a guest may ask for any number of them.
const MAX_NAMES: usize = 256;

/// Why there is no certificate.
#[derive(Debug, thiserror::Error)]
pub enum AuthorityError {
    /// It cannot be made.
    #[error("a certificate could not be made")]
    Certificate(#[from] rcgen::Error),
    /// It cannot be used.
    #[error("a certificate could not be used")]
    Tls(#[from] rustls::Error),
}

/// The authority of one sandbox. Its certificates hold for any time: programs may have a clock of their own.
pub(super) struct Authority {
    pem: String,
    issuer: Issuer<'static, KeyPair>,
    /// Of all names.
    key: KeyPair,
    servers: Mutex<HashMap<HostName, Arc<ServerConfig>>>,
}

impl fmt::Debug for Authority {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Authority").finish_non_exhaustive()
    }
}

/// What another process needs to sign as this one does. Never shown: a key is in it.
#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(in crate::network) struct AuthoritySetup {
    pem: String,
    key: String,
}

impl Authority {
    pub(super) fn new() -> Result<Self, AuthorityError> {
        let key = KeyPair::generate()?;
        let pem = Self::params()?.self_signed(&key)?.pem();
        Self::of(pem, key)
    }

    fn of(pem: String, key: KeyPair) -> Result<Self, AuthorityError> {
        let issuer = Issuer::new(Self::params()?, key);
        Ok(Self { pem, issuer, key: KeyPair::generate()?, servers: Mutex::default() })
    }

    fn params() -> Result<CertificateParams, AuthorityError> {
        let mut params = CertificateParams::new(Vec::new())?;
        params.distinguished_name.push(DnType::CommonName, "Rekindle, this sandbox alone");
        params.is_ca = IsCa::Ca(BasicConstraints::Constrained(0));
        params.key_usages = vec![KeyUsagePurpose::KeyCertSign, KeyUsagePurpose::CrlSign];
        Ok(params)
    }

    pub(super) fn hand_over(&self) -> AuthoritySetup {
        AuthoritySetup { pem: self.pem.clone(), key: self.issuer.key().serialize_pem() }
    }

    pub(super) fn receive(setup: &AuthoritySetup) -> Result<Self, AuthorityError> {
        Self::of(setup.pem.clone(), KeyPair::from_pem(&setup.key)?)
    }

    /// Its certificate.
    pub(super) fn pem(&self) -> &str {
        &self.pem
    }

    /// What a server of exactly this name speaks TLS with: HTTP/1.1 inside.
    pub(super) fn server(&self, name: &HostName) -> Result<Arc<ServerConfig>, AuthorityError> {
        let mut servers = self.servers.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(server) = servers.get(name) {
            return Ok(Arc::clone(server));
        }
        let mut params = CertificateParams::new(vec![name.to_string()])?;
        params.distinguished_name.push(DnType::CommonName, "Rekindle");
        params.use_authority_key_identifier_extension = true;
        params.key_usages = vec![KeyUsagePurpose::DigitalSignature];
        params.extended_key_usages = vec![ExtendedKeyUsagePurpose::ServerAuth];
        let certificate = params.signed_by(&self.key, &self.issuer)?;
        let key = PrivateKeyDer::Pkcs8(PrivatePkcs8KeyDer::from(self.key.serialize_der()));
        let provider = Arc::new(rustls::crypto::ring::default_provider());
        let mut config = ServerConfig::builder_with_provider(provider)
            .with_safe_default_protocol_versions()?
            .with_no_client_auth()
            .with_single_cert(vec![certificate.der().clone()], key)?;
        config.alpn_protocols = vec![b"http/1.1".to_vec()];
        let config = Arc::new(config);
        if servers.len() >= MAX_NAMES {
            servers.clear();
        }
        servers.insert(name.clone(), Arc::clone(&config));
        Ok(config)
    }
}
