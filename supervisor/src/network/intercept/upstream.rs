//! The server of a connection that is recorded: looked up, screened and dialled as any other, with TLS that is verified.
//! One connection for one request, so that no answer is late for another's.

use std::io;
use std::sync::Arc;
use std::time::Duration;

use hyper::body::Incoming;
use hyper::client::conn::http1::{self, SendRequest};
use hyper_util::rt::TokioIo;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::time::timeout;
use tokio_rustls::TlsConnector;
use tokio_rustls::rustls::ClientConfig;
use tokio_rustls::rustls::pki_types::ServerName;
use tokio_util::task::AbortOnDropHandle;

use super::body::Hashed;
use crate::network::dial::{DialError, Dialer};
use crate::network::name::HostName;
use crate::network::policy::Target;

/// How long a handshake may take.
const HANDSHAKE: Duration = Duration::from_secs(10);
/// Most bytes of an answer's head.
const MAX_HEAD: usize = 64 * 1024;
/// Most fields of it.
const MAX_FIELDS: usize = 128;

/// Why a server cannot be reached.
#[derive(Debug, thiserror::Error)]
pub(super) enum UpstreamError {
    #[error(transparent)]
    Dial(#[from] DialError),
    #[error("the TLS handshake with the server failed: {0}")]
    Tls(io::Error),
    #[error("the TLS handshake with the server took too long")]
    Late,
    #[error("the server does not speak HTTP/1")]
    Http(#[source] hyper::Error),
}

/// What carries bytes to a server.
trait Carrier: AsyncRead + AsyncWrite + Unpin + Send {}
impl<T: AsyncRead + AsyncWrite + Unpin + Send> Carrier for T {}

/// Where requests go.
pub(super) struct Upstream<'a> {
    pub(super) dialer: &'a Dialer,
    pub(super) name: &'a HostName,
    pub(super) port: u16,
    pub(super) tls: Option<Arc<ClientConfig>>,
}

/// A connection for one request.
pub(super) struct Connection {
    pub(super) sender: SendRequest<Hashed<Incoming>>,
    /// It ends with this.
    pub(super) driver: AbortOnDropHandle<()>,
}

impl Upstream<'_> {
    pub(super) async fn connect(&self) -> Result<Connection, UpstreamError> {
        let tcp = self.dialer.dial(&Target::Name(self.name.clone()), self.port).await?;
        let carrier: Box<dyn Carrier> = match &self.tls {
            None => Box::new(tcp),
            Some(config) => {
                let name = ServerName::try_from(self.name.as_str().to_owned())
                    .map_err(|error| UpstreamError::Tls(io::Error::other(error)))?;
                let connecting = TlsConnector::from(Arc::clone(config)).connect(name, tcp);
                let tls = timeout(HANDSHAKE, connecting).await.map_err(|_| UpstreamError::Late)?;
                Box::new(tls.map_err(UpstreamError::Tls)?)
            }
        };
        let mut builder = http1::Builder::new();
        builder.max_buf_size(MAX_HEAD).max_headers(MAX_FIELDS);
        let (sender, driving) =
            builder.handshake(TokioIo::new(carrier)).await.map_err(UpstreamError::Http)?;
        let driver = AbortOnDropHandle::new(tokio::spawn(async move {
            // Whoever waits for the answer is told.
            let _ = driving.await;
        }));
        Ok(Connection { sender, driver })
    }
}
