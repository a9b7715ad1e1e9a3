//! Connects to a supervisor: over its unix socket, or over TCP with TLS and a bearer token. Used by the command
//! line and by tests; programs in other languages use the `.proto` file.

use std::path::PathBuf;
use std::time::Duration;

use hyper_util::rt::TokioIo;
use tokio::net::UnixStream;
use tonic::codegen::InterceptedService;
use tonic::metadata::{Ascii, MetadataValue};
use tonic::service::Interceptor;
use tonic::transport::{Certificate, Channel, ClientTlsConfig, Endpoint, Identity, Uri};
use tonic::{Request, Status};
use tower::service_fn;

use crate::v1::host_client::HostClient;
use crate::v1::sandboxes_client::SandboxesClient;

/// How long a connection may take.
const CONNECT: Duration = Duration::from_secs(10);
/// Largest answer that is taken: a listing of many files.
const MAX_MESSAGE: usize = 64 * 1024 * 1024;

/// Where a supervisor listens.
#[derive(Debug, Clone)]
pub enum Target {
    /// Its unix socket.
    Socket(PathBuf),
    /// Its TCP address, as `https://host:port`.
    Tls {
        /// The address.
        url: String,
        /// PEM of the authority that signed the server's certificate; `None` trusts none but it must be given
        /// for every server whose authority is not compiled in.
        ca: Option<Vec<u8>>,
        /// PEM of this client's certificate and key, where the server asks for one.
        identity: Option<(Vec<u8>, Vec<u8>)>,
    },
}

/// Why no connection came about.
#[derive(Debug, thiserror::Error)]
pub enum ConnectError {
    /// The address is none.
    #[error("{address:?} is no address of a server\nhint: use https://HOST:PORT")]
    Address {
        /// What was given.
        address: String,
        /// Why.
        #[source]
        source: tonic::transport::Error,
    },
    /// A token that cannot be sent.
    #[error("the token has characters no token has")]
    Token,
    /// Nobody answered.
    #[error("no server answers at {address}\nhint: is `rekindle serve` running, and may you use its socket?")]
    Connect {
        /// Where.
        address: String,
        /// Why.
        #[source]
        source: tonic::transport::Error,
    },
}

/// Adds the bearer token to every call.
#[derive(Debug, Clone)]
pub struct Bearer(Option<MetadataValue<Ascii>>);

impl Interceptor for Bearer {
    fn call(&mut self, mut request: Request<()>) -> Result<Request<()>, Status> {
        if let Some(value) = &self.0 {
            request.metadata_mut().insert("authorization", value.clone());
        }
        Ok(request)
    }
}

/// What calls travel on.
pub type Transport = InterceptedService<Channel, Bearer>;

/// Clients of one supervisor. Cheap to clone; clones share a connection.
#[derive(Debug, Clone)]
pub struct Client {
    /// Sandboxes.
    pub sandboxes: SandboxesClient<Transport>,
    /// Facts about the host.
    pub host: HostClient<Transport>,
}

impl Client {
    /// Connects.
    ///
    /// # Errors
    /// See [`ConnectError`].
    pub async fn connect(target: &Target, token: Option<&str>) -> Result<Self, ConnectError> {
        let bearer = match token {
            Some(token) => {
                let value = format!("Bearer {token}").parse().map_err(|_| ConnectError::Token)?;
                Bearer(Some(value))
            }
            None => Bearer(None),
        };
        let channel = channel(target).await?;
        let transport = InterceptedService::new(channel, bearer);
        Ok(Self {
            sandboxes: SandboxesClient::new(transport.clone()).max_decoding_message_size(MAX_MESSAGE),
            host: HostClient::new(transport).max_decoding_message_size(MAX_MESSAGE),
        })
    }
}

async fn channel(target: &Target) -> Result<Channel, ConnectError> {
    match target {
        Target::Socket(path) => {
            let address = path.display().to_string();
            let path = path.clone();
            // The address is only a name here: the connector below dials the socket.
            let endpoint = Endpoint::from_static("http://rekindle.invalid").connect_timeout(CONNECT);
            let dial = service_fn(move |_: Uri| {
                let path = path.clone();
                async move { UnixStream::connect(path).await.map(TokioIo::new) }
            });
            endpoint
                .connect_with_connector(dial)
                .await
                .map_err(|source| ConnectError::Connect { address, source })
        }
        Target::Tls { url, ca, identity } => {
            let bad = |source| ConnectError::Address { address: url.clone(), source };
            let mut tls = ClientTlsConfig::new();
            if let Some(ca) = ca {
                tls = tls.ca_certificate(Certificate::from_pem(ca));
            }
            if let Some((certificate, key)) = identity {
                tls = tls.identity(Identity::from_pem(certificate, key));
            }
            let endpoint = Endpoint::from_shared(url.clone())
                .map_err(bad)?
                .connect_timeout(CONNECT)
                .tls_config(tls)
                .map_err(bad)?;
            let connected = endpoint.connect().await;
            connected.map_err(|source| ConnectError::Connect { address: url.clone(), source })
        }
    }
}
