//! The client's side of HTTP to a server that was dialled: TLS where the server has it, verified, then HTTP/1.
//!
//! A connection carries one request, so nothing that one sandbox sends can be read as the beginning of another's, and no
//! answer is late for another's request. Used by `gateway` and by `intercept`.

use std::io;
use std::sync::Arc;
use std::time::Duration;

use hyper::body::Body;
use hyper::client::conn::http1::{self, SendRequest};
use hyper_util::rt::TokioIo;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::TcpStream;
use tokio::time::timeout;
use tokio_rustls::TlsConnector;
use tokio_rustls::rustls::ClientConfig;
use tokio_rustls::rustls::pki_types::ServerName;
use tokio_util::task::AbortOnDropHandle;

use super::policy::Target;

/// How long a handshake may take.
pub(super) const HANDSHAKE: Duration = Duration::from_secs(10);
/// Most bytes of an answer's head.
const MAX_HEAD: usize = 64 * 1024;
/// Most fields of it.
const MAX_FIELDS: usize = 128;

/// Why a server that was dialled cannot be asked.
#[derive(Debug, thiserror::Error)]
pub(super) enum HandshakeError {
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

/// A connection for one request.
pub(super) struct Connection<B> {
    pub(super) sender: SendRequest<B>,
    /// It ends with this.
    pub(super) driver: AbortOnDropHandle<()>,
}

/// Shakes hands with a server, which is held to the name or address that was asked for where there is TLS.
pub(super) async fn handshake<B>(
    tcp: TcpStream,
    target: &Target,
    tls: Option<&Arc<ClientConfig>>,
) -> Result<Connection<B>, HandshakeError>
where
    B: Body<Data: Send, Error: Into<Box<dyn std::error::Error + Send + Sync>>> + Send + 'static,
{
    let carrier: Box<dyn Carrier> = match tls {
        None => Box::new(tcp),
        Some(config) => {
            let connecting = TlsConnector::from(Arc::clone(config)).connect(server_name(target)?, tcp);
            let tls = timeout(HANDSHAKE, connecting).await.map_err(|_| HandshakeError::Late)?;
            Box::new(tls.map_err(HandshakeError::Tls)?)
        }
    };
    let mut builder = http1::Builder::new();
    builder.max_buf_size(MAX_HEAD).max_headers(MAX_FIELDS);
    let (sender, driving) = builder.handshake(TokioIo::new(carrier)).await.map_err(HandshakeError::Http)?;
    let driver = AbortOnDropHandle::new(tokio::spawn(async move {
        // Whoever waits for the answer is told.
        let _ = driving.await;
    }));
    Ok(Connection { sender, driver })
}

fn server_name(target: &Target) -> Result<ServerName<'static>, HandshakeError> {
    match target {
        Target::Address(address) => Ok(ServerName::IpAddress((*address).into())),
        Target::Name(name) => ServerName::try_from(name.as_str().to_owned())
            .map_err(|error| HandshakeError::Tls(io::Error::other(error))),
    }
}
