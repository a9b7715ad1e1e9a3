//! A certificate for the names of a test's sandboxes, and the authority that signed it.

use std::fs::{self, Permissions};
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result};
use rcgen::{BasicConstraints, CertificateParams, DnType, IsCa, Issuer, KeyPair, KeyUsagePurpose};

/// Where they are.
pub struct Certificate {
    /// What clients are to trust.
    pub authority: PathBuf,
    /// What the server shows.
    pub cert: PathBuf,
    /// The server's key.
    pub key: PathBuf,
}

impl Certificate {
    /// Makes one for every name below `domain`.
    pub fn make(dir: &Path, domain: &str) -> Result<Self> {
        let mut authority = CertificateParams::new(Vec::new())?;
        authority.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        authority.key_usages = vec![KeyUsagePurpose::KeyCertSign];
        // With the name of what it signs it would be taken for that.
        authority.distinguished_name.push(DnType::CommonName, "the authority of these tests");
        let authority_key = KeyPair::generate()?;
        let authority_pem = authority.self_signed(&authority_key)?.pem();
        let issuer = Issuer::new(authority, authority_key);
        let key = KeyPair::generate()?;
        let mut cert = CertificateParams::new(vec![format!("*.{domain}")])?;
        // Clients that are strict ask for it.
        cert.use_authority_key_identifier_extension = true;
        let cert = cert.signed_by(&key, &issuer)?;
        let write = |name: &str, text: &str| -> Result<PathBuf> {
            let path = dir.join(name);
            fs::write(&path, text).with_context(|| format!("cannot write {}", path.display()))?;
            fs::set_permissions(&path, Permissions::from_mode(0o600))?;
            Ok(path)
        };
        Ok(Self {
            authority: write("authority.pem", &authority_pem)?,
            cert: write("cert.pem", &cert.pem())?,
            key: write("key.pem", &key.serialize_pem())?,
        })
    }
}
