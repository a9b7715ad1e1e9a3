//! The servers: one on the unix socket, one on TCP with TLS, both with health and reflection beside the API.

use std::io;
use std::net::SocketAddr;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use futures::TryStreamExt as _;
use rekindle_api::v1::executions_server::ExecutionsServer;
use rekindle_api::v1::files_server::FilesServer;
use rekindle_api::v1::host_server::HostServer;
use rekindle_api::v1::interpreter_server::InterpreterServer;
use rekindle_api::v1::network_server::NetworkServer;
use rekindle_api::v1::sandboxes_server::SandboxesServer;
use tokio::net::TcpListener;
use tokio::sync::watch;
use tonic::service::Routes;
use tonic_health::server::HealthReporter;

use super::admit::Admission;
use super::beside::Beside;
use super::executions::ExecutionsApi;
use super::files::FilesApi;
use super::host::{HostApi, HostFacts};
use super::interpreter::InterpreterApi;
use super::network::NetworkApi;
use super::sandboxes::SandboxesApi;
use super::socket::{self, Socket, SocketError};
use crate::door::{
    Authenticator, CallContext, ConnectionLimits, Handler, Places, Tls, TlsError, TlsFiles, incoming,
};
use crate::service::Service;
use crate::telemetry::Audit;

/// Largest message taken from a caller.
const MAX_MESSAGE: usize = 4 * 1024 * 1024;
/// Largest message taken by the services that ask for no token.
const MAX_PUBLIC_MESSAGE: usize = 16 * 1024;
/// Largest header list taken from a caller.
const MAX_HEADERS: u32 = 16 * 1024;
/// A connection that says nothing is asked this often whether it is still there,
const KEEPALIVE: Duration = Duration::from_secs(30);
/// and given up when it does not answer within this.
const KEEPALIVE_ANSWER: Duration = Duration::from_secs(20);
/// What a caller may have under way towards us, for each stream and for the connection: how much it can make
/// this process hold.
const STREAM_WINDOW: u32 = 256 * 1024;
const CONNECTION_WINDOW: u32 = 1024 * 1024;
/// Streams a caller may open and give up at once before the connection is closed.
const MAX_PENDING_RESETS: usize = 64;

/// What an operator decides about connections.
#[derive(Debug, Clone)]
pub struct ServerOptions {
    /// How many connections there may be, and what each may take.
    pub connections: ConnectionLimits,
    /// Calls at once on one connection.
    pub max_streams: u32,
    /// Facts about the host.
    pub facts: HostFacts,
}

/// Why nothing is served.
#[derive(Debug, thiserror::Error)]
pub enum ServeError {
    /// The socket cannot be had.
    #[error(transparent)]
    Socket(#[from] SocketError),
    /// The address cannot be had.
    #[error("cannot listen on {address}\nhint: is another program using it? see listen.tcp")]
    Tcp {
        /// The address.
        address: SocketAddr,
        /// Why.
        #[source]
        source: io::Error,
    },
    /// The certificates cannot be had.
    #[error(transparent)]
    Tls(#[from] TlsError),
    /// The server itself is no good.
    #[error("the server cannot run")]
    Server(#[source] tonic::transport::Error),
    /// The API's own description is damaged.
    #[error("the description of the API cannot be served")]
    Reflection(#[source] tonic_reflection::server::Error),
}

/// Where callers connect.
#[derive(Debug, Default)]
pub struct Listeners {
    socket: Option<Socket>,
    tcp: Option<(TcpListener, Arc<Tls>)>,
}

impl Listeners {
    /// Listens on a unix socket.
    ///
    /// # Errors
    /// See [`SocketError`].
    pub async fn socket(mut self, path: &Path, mode: u32, group: Option<&str>) -> Result<Self, ServeError> {
        self.socket = Some(socket::listen(path, mode, group).await?);
        Ok(self)
    }

    /// Listens on TCP, with TLS.
    ///
    /// # Errors
    /// When the address or a file cannot be had.
    pub async fn tcp(mut self, address: SocketAddr, files: &TlsFiles) -> Result<Self, ServeError> {
        let tls = Arc::new(Tls::open(files.clone())?);
        let listener =
            TcpListener::bind(address).await.map_err(|source| ServeError::Tcp { address, source })?;
        self.tcp = Some((listener, tls));
        Ok(self)
    }

    /// The certificates of TCP, for whoever reloads them.
    #[must_use]
    pub fn tls(&self) -> Option<Arc<Tls>> {
        self.tcp.as_ref().map(|(_, tls)| Arc::clone(tls))
    }

    /// The TCP address, which differs from the asked one for port 0.
    #[must_use]
    pub fn tcp_address(&self) -> Option<SocketAddr> {
        self.tcp.as_ref().and_then(|(listener, _)| listener.local_addr().ok())
    }
}

/// The API, ready to be served.
pub struct Server {
    service: Admission,
    beside: Option<Handler>,
    health: HealthReporter,
    max_streams: u32,
    limits: Arc<ConnectionLimits>,
    socket_places: Places,
    tcp_places: Places,
    trusts_socket: bool,
    stop: watch::Sender<bool>,
}

impl Server {
    /// Puts the API together.
    ///
    /// # Errors
    /// When its description is damaged.
    pub async fn new(
        service: Service,
        authenticator: Arc<Authenticator>,
        audit: Arc<Audit>,
        options: ServerOptions,
    ) -> Result<Self, ServeError> {
        let trusts_socket = authenticator.trusts_socket();
        let sandboxes = SandboxesApi { service: service.clone(), authenticator: Arc::clone(&authenticator) };
        let context = CallContext::new(&service, authenticator, audit);
        let executions = ExecutionsApi { service: service.clone() };
        let interpreter = InterpreterApi { service: service.clone() };
        let files = FilesApi { service: service.clone() };
        let network = NetworkApi { service: service.clone() };
        let host = HostApi { service, facts: options.facts };
        let (health, health_service) = tonic_health::server::health_reporter();
        health.set_serving::<SandboxesServer<SandboxesApi>>().await;
        health.set_serving::<ExecutionsServer<ExecutionsApi>>().await;
        health.set_serving::<InterpreterServer<InterpreterApi>>().await;
        health.set_serving::<FilesServer<FilesApi>>().await;
        health.set_serving::<NetworkServer<NetworkApi>>().await;
        health.set_serving::<HostServer<HostApi>>().await;
        let described = || {
            tonic_reflection::server::Builder::configure()
                .register_encoded_file_descriptor_set(rekindle_api::DESCRIPTORS)
                .register_encoded_file_descriptor_set(tonic_health::pb::FILE_DESCRIPTOR_SET)
        };
        let reflection = described().build_v1().map_err(ServeError::Reflection)?;
        // What most tools of other languages still ask for.
        let reflection_alpha = described().build_v1alpha().map_err(ServeError::Reflection)?;
        let routes = Routes::new(SandboxesServer::new(sandboxes).max_decoding_message_size(MAX_MESSAGE))
            .add_service(ExecutionsServer::new(executions).max_decoding_message_size(MAX_MESSAGE))
            .add_service(InterpreterServer::new(interpreter).max_decoding_message_size(MAX_MESSAGE))
            .add_service(FilesServer::new(files).max_decoding_message_size(MAX_MESSAGE))
            .add_service(NetworkServer::new(network).max_decoding_message_size(MAX_MESSAGE))
            .add_service(HostServer::new(host).max_decoding_message_size(MAX_MESSAGE))
            .add_service(health_service.max_decoding_message_size(MAX_PUBLIC_MESSAGE))
            .add_service(reflection.max_decoding_message_size(MAX_PUBLIC_MESSAGE))
            .add_service(reflection_alpha.max_decoding_message_size(MAX_PUBLIC_MESSAGE));
        let limits = Arc::new(options.connections);
        Ok(Self {
            service: Admission { context, routes },
            beside: None,
            health,
            max_streams: options.max_streams,
            socket_places: Places::new(limits.socket, limits.socket),
            tcp_places: Places::new(limits.tcp, limits.per_address),
            limits,
            trusts_socket,
            stop: watch::channel(false).0,
        })
    }

    /// The API, for a face that has its calls in other words: gRPC in, gRPC out, admitted and written down like any
    /// other.
    #[must_use]
    pub fn handler(&self) -> Handler {
        self.service.handler()
    }

    /// Has requests that are not gRPC answered by `other`, also those of HTTP/1.1.
    #[must_use]
    pub fn beside(self, other: Handler) -> Self {
        Self { beside: Some(other), ..self }
    }

    /// What tells callers' health checks, and stops the servers.
    #[must_use]
    pub fn handle(&self) -> ServerHandle {
        ServerHandle { health: self.health.clone(), stop: self.stop.clone() }
    }

    /// Serves until it is stopped.
    ///
    /// # Errors
    /// When a server cannot go on.
    pub async fn serve(self, listeners: Listeners) -> Result<(), ServeError> {
        let Listeners { socket, tcp } = listeners;
        let on_socket = async {
            match &socket {
                Some(socket) => {
                    let incoming =
                        incoming(&socket.listener, &self.socket_places, self.trusts_socket, &self.limits);
                    self.builder().serve_with_incoming_shutdown(self.spoken(), incoming, self.stopped()).await
                }
                None => Ok(()),
            }
        };
        let on_tcp = async {
            match &tcp {
                Some((listener, tls)) => {
                    let incoming = incoming(listener, &self.tcp_places, false, &self.limits);
                    let incoming = incoming.map_ok(|connection| tls.accept(connection, self.limits.greeting));
                    self.builder().serve_with_incoming_shutdown(self.spoken(), incoming, self.stopped()).await
                }
                None => Ok(()),
            }
        };
        tokio::try_join!(on_socket, on_tcp).map(|_| ()).map_err(ServeError::Server)
    }

    /// What is answered on a connection.
    fn spoken(&self) -> Beside {
        Beside { grpc: self.service.clone(), other: self.beside.clone() }
    }

    fn builder(&self) -> tonic::transport::Server {
        tonic::transport::Server::builder()
            .accept_http1(self.beside.is_some())
            .max_concurrent_streams(self.max_streams)
            .http2_keepalive_interval(Some(KEEPALIVE))
            .http2_keepalive_timeout(Some(KEEPALIVE_ANSWER))
            .initial_stream_window_size(STREAM_WINDOW)
            .initial_connection_window_size(CONNECTION_WINDOW)
            .http2_max_header_list_size(MAX_HEADERS)
            .http2_max_pending_accept_reset_streams(Some(MAX_PENDING_RESETS))
    }

    async fn stopped(&self) {
        let mut stop = self.stop.subscribe();
        // The sender lives in `self`.
        let _ = stop.wait_for(|stop| *stop).await;
    }
}

/// Stops a server that serves.
#[derive(Debug, Clone)]
pub struct ServerHandle {
    health: HealthReporter,
    stop: watch::Sender<bool>,
}

impl ServerHandle {
    /// Tells health checks to look elsewhere; calls are still taken.
    pub async fn drain(&self) {
        self.health.set_not_serving::<SandboxesServer<SandboxesApi>>().await;
        self.health.set_not_serving::<ExecutionsServer<ExecutionsApi>>().await;
        self.health.set_not_serving::<InterpreterServer<InterpreterApi>>().await;
        self.health.set_not_serving::<FilesServer<FilesApi>>().await;
        self.health.set_not_serving::<NetworkServer<NetworkApi>>().await;
        self.health.set_not_serving::<HostServer<HostApi>>().await;
    }

    /// Takes no more connections, and ends once those that are there are done.
    pub fn stop(&self) {
        self.stop.send_replace(true);
    }
}
