//! The server of a connection that is recorded: looked up, screened and dialled as any other, with TLS that is verified.

use std::sync::Arc;

use hyper::body::Incoming;
use tokio_rustls::rustls::ClientConfig;

use super::body::Hashed;
use crate::network::dial::{DialError, Dialer};
use crate::network::http_client::{self, HandshakeError, handshake};
use crate::network::name::HostName;
use crate::network::policy::Target;

/// Why a server cannot be reached.
#[derive(Debug, thiserror::Error)]
pub(super) enum UpstreamError {
    #[error(transparent)]
    Dial(#[from] DialError),
    #[error(transparent)]
    Handshake(#[from] HandshakeError),
}

/// Where requests go.
pub(super) struct Upstream<'a> {
    pub(super) dialer: &'a Dialer,
    pub(super) name: &'a HostName,
    pub(super) port: u16,
    pub(super) tls: Option<Arc<ClientConfig>>,
}

/// A connection for one request.
pub(super) type Connection = http_client::Connection<Hashed<Incoming>>;

impl Upstream<'_> {
    pub(super) async fn connect(&self) -> Result<Connection, UpstreamError> {
        let target = Target::Name(self.name.clone());
        let tcp = self.dialer.dial(&target, self.port).await?;
        Ok(handshake(tcp, &target, self.tls.as_ref()).await?)
    }
}
