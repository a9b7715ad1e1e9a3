//! Certificates as they are handed to the worker: text of their bytes.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use tokio_rustls::rustls::pki_types::CertificateDer;

pub(super) fn encode(certificates: &[CertificateDer<'_>]) -> Vec<String> {
    certificates.iter().map(|certificate| STANDARD.encode(certificate)).collect()
}

/// What cannot be read is left out, as what cannot be used is.
pub(super) fn decode(certificates: &[String]) -> Vec<CertificateDer<'static>> {
    let certificates = certificates.iter().filter_map(|text| STANDARD.decode(text).ok());
    certificates.map(CertificateDer::from).collect()
}
