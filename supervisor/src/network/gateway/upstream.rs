//! Connects to a service: one connection for one request, looked up and screened as any other, with TLS.

use std::fmt;
use std::io;
use std::net::{IpAddr, SocketAddr};
use std::path::Path;
use std::sync::Arc;

use http_body_util::Limited;
use hyper::Uri;
use hyper::body::Incoming;
use hyper::header::HeaderValue;
use tokio::net::TcpStream;
use tokio::time::timeout;
use tokio_rustls::rustls::pki_types::CertificateDer;
use tokio_rustls::rustls::pki_types::pem::PemObject as _;
use tokio_rustls::rustls::{ClientConfig, RootCertStore};

use super::service::InvalidService;
use crate::network::dial::{DialError, Dialer};
use crate::network::http_client::{self, HANDSHAKE, HandshakeError, handshake};
use crate::network::name::HostName;
use crate::network::policy::Target;

/// Where a service is.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct UpstreamPlan {
    secure: bool,
    target: Target,
    port: u16,
    authority: HeaderValue,
}

impl UpstreamPlan {
    pub(super) fn parse(text: &str) -> Result<Self, InvalidService> {
        let wrong = InvalidService::Upstream;
        let uri: Uri = text.parse().map_err(|_| wrong.clone())?;
        let secure = match uri.scheme_str() {
            Some("https") => true,
            Some("http") => false,
            _ => return Err(wrong),
        };
        let authority = uri.authority().ok_or_else(|| wrong.clone())?;
        let nothing_more =
            matches!(uri.path(), "" | "/") && uri.query().is_none() && !text.contains(['#', '@']);
        let host = authority.host();
        let port = match authority.as_str().strip_prefix(host) {
            Some("") => Some(if secure { 443 } else { 80 }),
            _ => authority.port_u16().filter(|port| *port != 0),
        };
        let (true, Some(port)) = (nothing_more, port) else { return Err(wrong) };
        let bare = host.strip_prefix('[').and_then(|host| host.strip_suffix(']')).unwrap_or(host);
        let target = match bare.parse::<IpAddr>() {
            Ok(address) => Target::Address(address),
            Err(_) => Target::Name(HostName::parse(host).map_err(|_| wrong.clone())?),
        };
        if !secure && !matches!(target, Target::Address(address) if address.is_loopback()) {
            return Err(InvalidService::Plain);
        }
        let authority = HeaderValue::from_str(authority.as_str()).map_err(|_| wrong)?;
        Ok(Self { secure, target, port, authority })
    }

    pub(super) fn is_secure(&self) -> bool {
        self.secure
    }

    /// Reads what it trusts: these certificates, or this host's.
    pub(super) fn open(self, ca: Option<&Path>) -> Result<Upstream, String> {
        let ca = ca.filter(|_| self.secure).map(read).transpose()?;
        self.trusting(ca, native)
    }

    /// Trusts these certificates, or those of the host.
    pub(super) fn trusting(
        self,
        ca: Option<Certificates>,
        native: impl FnOnce() -> Certificates,
    ) -> Result<Upstream, String> {
        let Self { secure, target, port, authority } = self;
        let tls = secure.then(|| trust(ca.as_deref(), native).map(Arc::new)).transpose()?;
        Ok(Upstream { tls, ca, target, port, authority })
    }
}

/// Certificates that sign others.
pub(super) type Certificates = Vec<CertificateDer<'static>>;

/// Those that this host trusts.
pub(in crate::network) fn native() -> Certificates {
    rustls_native_certs::load_native_certs().certs
}

fn read(path: &Path) -> Result<Certificates, String> {
    let wrong = |error: &dyn fmt::Display| format!("{}: {error}", path.display());
    let certificates = CertificateDer::pem_file_iter(path).map_err(|error| wrong(&error))?;
    let certificates = certificates.collect::<Result<Vec<_>, _>>().map_err(|error| wrong(&error))?;
    let mut roots = RootCertStore::empty();
    for certificate in &certificates {
        roots.add(certificate.clone()).map_err(|error| wrong(&error))?;
    }
    Ok(certificates)
}

/// How servers are believed by these certificates, or this host's.
pub(in crate::network) fn trust(
    ca: Option<&[CertificateDer<'static>]>,
    native: impl FnOnce() -> Certificates,
) -> Result<ClientConfig, String> {
    let mut roots = RootCertStore::empty();
    match ca {
        Some(certificates) => roots.add_parsable_certificates(certificates.iter().cloned()),
        None => roots.add_parsable_certificates(native()),
    };
    if roots.is_empty() {
        return Err("there are none".to_owned());
    }
    let provider = Arc::new(tokio_rustls::rustls::crypto::ring::default_provider());
    let builder = ClientConfig::builder_with_provider(provider).with_safe_default_protocol_versions();
    let builder = builder.map_err(|error| error.to_string())?;
    let mut config = builder.with_root_certificates(roots).with_no_client_auth();
    config.alpn_protocols = vec![b"http/1.1".to_vec()];
    Ok(config)
}

/// Why a service cannot be reached.
#[derive(Debug, thiserror::Error)]
pub(super) enum UpstreamError {
    #[error(transparent)]
    Dial(#[from] DialError),
    #[error("the connection failed")]
    Connect(#[source] io::Error),
    #[error("the connection took too long")]
    Late,
    #[error(transparent)]
    Handshake(#[from] HandshakeError),
}

/// Where a service is, and whom it is believed.
pub(super) struct Upstream {
    tls: Option<Arc<ClientConfig>>,
    /// What it trusts instead of what the host does.
    pub(super) ca: Option<Certificates>,
    target: Target,
    port: u16,
    /// What it is called in requests.
    pub(super) authority: HeaderValue,
}

impl fmt::Debug for Upstream {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Upstream")
            .field("target", &self.target)
            .field("port", &self.port)
            .finish_non_exhaustive()
    }
}

/// A connection for one request.
pub(super) type Connection = http_client::Connection<Limited<Incoming>>;

impl Upstream {
    /// Whether it trusts what the host does.
    pub(super) fn is_native(&self) -> bool {
        self.tls.is_some() && self.ca.is_none()
    }

    pub(super) async fn connect(&self, dialer: &Dialer) -> Result<Connection, UpstreamError> {
        let tcp = match &self.target {
            Target::Name(_) => dialer.dial(&self.target, self.port).await?,
            // The operator's own word, private or not.
            Target::Address(address) => {
                let connecting = TcpStream::connect(SocketAddr::new(*address, self.port));
                timeout(HANDSHAKE, connecting)
                    .await
                    .map_err(|_| UpstreamError::Late)?
                    .map_err(UpstreamError::Connect)?
            }
        };
        Ok(handshake(tcp, &self.target, self.tls.as_ref()).await?)
    }
}
