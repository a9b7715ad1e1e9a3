//! Connects to a supervisor: over its unix socket, or over TCP with TLS and a bearer token. Used by the command
//! line and by tests; programs in other languages use the `.proto` file.

use std::error::Error as _;
use std::io;
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

use crate::v1::executions_client::ExecutionsClient;
use crate::v1::files_client::FilesClient;
use crate::v1::host_client::HostClient;
use crate::v1::interpreter_client::InterpreterClient;
use crate::v1::network_client::NetworkClient;
use crate::v1::sandboxes_client::SandboxesClient;

/// How long a connection may take.
const CONNECT: Duration = Duration::from_secs(10);
/// How often a quiet connection over TCP is checked while a call is under way.
const KEEP_ALIVE: Duration = Duration::from_secs(30);
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
        /// PEM of the authority that signed the server's certificate, the only one trusted then; `None` trusts
        /// those this machine trusts.
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
    /// A certificate or key is none.
    #[error("the certificates cannot be used\nhint: certificates and keys are PEM files")]
    Certificates {
        /// Why.
        #[source]
        source: tonic::transport::Error,
    },
    /// A token that cannot be sent.
    #[error("the token has characters no token has\nhint: `rekindle token` makes tokens")]
    Token,
    /// A trace or a step that cannot be sent.
    #[error("the trace or the step has characters that cannot be sent\nhint: both are printable ASCII")]
    Origin,
    /// Nobody listens there.
    #[error(
        "no server runs at {address}\nhint: start one with `rekindle serve`, or name another with --server"
    )]
    Absent {
        /// Where.
        address: String,
        /// Why.
        #[source]
        source: tonic::transport::Error,
    },
    /// The socket is there and not for this user.
    #[error(
        "the server's socket {address} may not be used by this user\nhint: be root, or a member of the group the server gives its socket to"
    )]
    Forbidden {
        /// Where.
        address: String,
        /// Why.
        #[source]
        source: tonic::transport::Error,
    },
    /// No connection came about.
    #[error(
        "no server answers at {address}\nhint: check the address, and with TLS the certificates: --ca names the authority"
    )]
    Connect {
        /// Where.
        address: String,
        /// Why.
        #[source]
        source: tonic::transport::Error,
    },
}

impl ConnectError {
    /// Tells by what the kernel said.
    fn new(address: String, source: tonic::transport::Error) -> Self {
        match kind(&source) {
            Some(io::ErrorKind::NotFound | io::ErrorKind::ConnectionRefused) => {
                Self::Absent { address, source }
            }
            Some(io::ErrorKind::PermissionDenied) => Self::Forbidden { address, source },
            _ => Self::Connect { address, source },
        }
    }
}

/// The first answer of the kernel in a chain of errors.
fn kind(error: &tonic::transport::Error) -> Option<io::ErrorKind> {
    let mut cause = error.source();
    while let Some(error) = cause {
        if let Some(error) = error.downcast_ref::<io::Error>() {
            return Some(error.kind());
        }
        cause = error.source();
    }
    None
}

/// What every call carries besides its message: the bearer token, and the trace and step that it is part of.
#[derive(Debug, Clone, Default)]
pub struct CallHeaders {
    authorization: Option<MetadataValue<Ascii>>,
    traceparent: Option<MetadataValue<Ascii>>,
    step: Option<MetadataValue<Ascii>>,
}

impl Interceptor for CallHeaders {
    fn call(&mut self, mut request: Request<()>) -> Result<Request<()>, Status> {
        for (name, value) in [
            ("authorization", &self.authorization),
            ("traceparent", &self.traceparent),
            ("rekindle-step", &self.step),
        ] {
            if let Some(value) = value {
                request.metadata_mut().insert(name, value.clone());
            }
        }
        Ok(request)
    }
}

/// What calls travel on.
pub type Transport = InterceptedService<Channel, CallHeaders>;

/// Clients of one supervisor. Cheap to clone; clones share a connection.
#[derive(Debug, Clone)]
pub struct Client {
    /// Sandboxes.
    pub sandboxes: SandboxesClient<Transport>,
    /// Programs in them that outlive their caller.
    pub executions: ExecutionsClient<Transport>,
    /// Code that is run in them piece by piece.
    pub interpreter: InterpreterClient<Transport>,
    /// Files in them.
    pub files: FilesClient<Transport>,
    /// What they reach outside of them.
    pub network: NetworkClient<Transport>,
    /// Facts about the host.
    pub host: HostClient<Transport>,
}

/// A connection to a supervisor, for calls with any token. Cheap to clone; it is made anew when it breaks.
#[derive(Debug, Clone)]
pub struct Connection {
    channel: Channel,
    headers: CallHeaders,
}

impl Connection {
    /// Connects.
    ///
    /// # Errors
    /// See [`ConnectError`].
    pub async fn open(target: &Target) -> Result<Self, ConnectError> {
        channel(target).await.map(|channel| Self { channel, headers: CallHeaders::default() })
    }

    /// The same connection, for calls that are part of a trace (a `traceparent` of W3C's) and of a step of it. What is
    /// not named stays what it was.
    ///
    /// # Errors
    /// [`ConnectError::Origin`].
    pub fn part_of(self, traceparent: Option<&str>, step: Option<&str>) -> Result<Self, ConnectError> {
        let value = |text: &str| text.parse().map_err(|_| ConnectError::Origin);
        let (traceparent, step) = (traceparent.map(value).transpose()?, step.map(value).transpose()?);
        let CallHeaders { authorization, traceparent: trace_before, step: step_before } = self.headers;
        let (traceparent, step) = (traceparent.or(trace_before), step.or(step_before));
        Ok(Self { headers: CallHeaders { authorization, traceparent, step }, ..self })
    }

    /// Clients whose calls show this token.
    ///
    /// # Errors
    /// [`ConnectError::Token`].
    pub fn client(&self, token: Option<&str>) -> Result<Client, ConnectError> {
        let headers = CallHeaders { authorization: bearer(token)?, ..self.headers.clone() };
        let transport = InterceptedService::new(self.channel.clone(), headers);
        Ok(Client {
            sandboxes: SandboxesClient::new(transport.clone()).max_decoding_message_size(MAX_MESSAGE),
            executions: ExecutionsClient::new(transport.clone()).max_decoding_message_size(MAX_MESSAGE),
            interpreter: InterpreterClient::new(transport.clone()).max_decoding_message_size(MAX_MESSAGE),
            files: FilesClient::new(transport.clone()).max_decoding_message_size(MAX_MESSAGE),
            network: NetworkClient::new(transport.clone()).max_decoding_message_size(MAX_MESSAGE),
            host: HostClient::new(transport).max_decoding_message_size(MAX_MESSAGE),
        })
    }
}

impl Client {
    /// Connects.
    ///
    /// # Errors
    /// See [`ConnectError`].
    pub async fn connect(target: &Target, token: Option<&str>) -> Result<Self, ConnectError> {
        // A token that is none needs no server to tell.
        bearer(token)?;
        Connection::open(target).await?.client(token)
    }
}

fn bearer(token: Option<&str>) -> Result<Option<MetadataValue<Ascii>>, ConnectError> {
    let value = |token: &str| format!("Bearer {token}").parse().map_err(|_| ConnectError::Token);
    token.map(value).transpose()
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
            endpoint.connect_with_connector(dial).await.map_err(|source| ConnectError::new(address, source))
        }
        Target::Tls { url, ca, identity } => {
            let mut tls = match ca {
                Some(ca) => ClientTlsConfig::new().ca_certificate(Certificate::from_pem(ca)),
                None => ClientTlsConfig::new().with_native_roots(),
            };
            if let Some((certificate, key)) = identity {
                tls = tls.identity(Identity::from_pem(certificate, key));
            }
            let endpoint = Endpoint::from_shared(url.clone())
                .map_err(|source| ConnectError::Address { address: url.clone(), source })?
                .connect_timeout(CONNECT)
                // A server that is gone without a word must not be watched for ever.
                .http2_keep_alive_interval(KEEP_ALIVE)
                .tls_config(tls)
                .map_err(|source| ConnectError::Certificates { source })?;
            let connected = endpoint.connect().await;
            connected.map_err(|source| ConnectError::new(url.clone(), source))
        }
    }
}

#[cfg(test)]
mod tests {
    //! What is said when there is no server.

    use super::*;

    #[tokio::test]
    async fn a_socket_that_is_not_there_says_how_to_start_a_server() {
        let target = Target::Socket("/nonexistent/rekindle.sock".into());
        let error = Client::connect(&target, None).await.expect_err("there is none");
        assert!(matches!(error, ConnectError::Absent { .. }), "{error:?}");
        assert!(error.to_string().contains("rekindle serve"), "{error}");
    }

    #[tokio::test]
    async fn a_port_nobody_listens_on_says_so_too() {
        let port = {
            let listener = std::net::TcpListener::bind("127.0.0.1:0").expect("a port");
            listener.local_addr().expect("bound").port()
        };
        let url = format!("https://127.0.0.1:{port}");
        let error = Client::connect(&Target::Tls { url, ca: None, identity: None }, None).await;
        assert!(matches!(error, Err(ConnectError::Absent { .. })), "{error:?}");
    }

    #[tokio::test]
    async fn a_token_with_a_line_break_is_none() {
        let target = Target::Socket("/nonexistent/rekindle.sock".into());
        assert!(matches!(Client::connect(&target, Some("a\nb")).await, Err(ConnectError::Token)));
    }
}
