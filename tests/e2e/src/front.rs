//! TLS in front of a server on loopback that speaks plain HTTP, as reverse proxies do it: the bytes inside are passed on.

use std::net::SocketAddr;
use std::sync::Arc;

use tokio::net::{TcpListener, TcpStream};
use tokio::task::AbortHandle;
use tokio_rustls::TlsAcceptor;
use tokio_rustls::rustls::ServerConfig;

/// A front, for as long as it is kept.
#[derive(Debug)]
pub struct Front {
    address: SocketAddr,
    accepting: AbortHandle,
}

impl Front {
    /// One for the server at `behind`.
    ///
    /// # Panics
    /// When there is no port.
    pub async fn open(config: Arc<ServerConfig>, behind: SocketAddr) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.expect("a port");
        let address = listener.local_addr().expect("an address");
        let tls = TlsAcceptor::from(config);
        let accepting = tokio::spawn(async move {
            while let Ok((stream, _)) = listener.accept().await {
                let tls = tls.clone();
                tokio::spawn(async move {
                    // A handshake that fails is the client's to tell, and so is a connection that breaks off.
                    if let (Ok(mut client), Ok(mut server)) =
                        (tls.accept(stream).await, TcpStream::connect(behind).await)
                    {
                        let _ = tokio::io::copy_bidirectional(&mut client, &mut server).await;
                    }
                });
            }
        });
        Self { address, accepting: accepting.abort_handle() }
    }

    /// Where it is.
    #[must_use]
    pub fn address(&self) -> SocketAddr {
        self.address
    }
}

impl Drop for Front {
    fn drop(&mut self) {
        self.accepting.abort();
    }
}
