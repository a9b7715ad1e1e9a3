//! The second way in of `rekindle serve`: HTTP, where `http.listen` is set.

use std::sync::Arc;

use rekindle::config::{ServerConfig, secret_file};
use rekindle::door::{Authenticator, ConnectionLimits, Tls, TlsFiles};
use rekindle::http::{Api, Front, FrontOptions, HttpHandle, HttpListener, HttpServer};
use rekindle::service::Service;
use rekindle::telemetry::Audit;

/// What is served over HTTP: what reloads its certificates, what stops it, and the server itself.
pub(super) struct Http {
    pub tls: Option<Arc<Tls>>,
    pub handle: HttpHandle,
    server: HttpServer,
    listener: HttpListener,
}

impl Http {
    /// Listens where that is configured.
    pub(super) async fn open(
        config: &ServerConfig,
        service: &Service,
        authenticator: &Arc<Authenticator>,
        audit: &Arc<Audit>,
        api: Arc<Api>,
    ) -> anyhow::Result<Option<Self>> {
        let Some(address) = config.http.listen else { return Ok(None) };
        let files = config.http_tls().map(|(cert, key)| TlsFiles {
            cert: cert.to_owned(),
            key: key.to_owned(),
            client_ca: config.listen.client_ca.clone(),
        });
        if let Some(files) = &files {
            secret_file::check(&files.key)?;
        }
        let listener = HttpListener::bind(address, files).await?;
        let options = FrontOptions {
            domain: config.http.domain.clone(),
            network: config.http.network.clone(),
            gateway: config.http.gateway.clone(),
            aliases: config.http.aliases.clone(),
            private_ports: !config.http.public_ports,
        };
        let front = Front::new(service.clone(), Arc::clone(authenticator), Arc::clone(audit), options);
        let front = front.with_api(api);
        let server =
            HttpServer::new(front, connection_limits(config), config.listen.max_streams_per_connection);
        Ok(Some(Self { tls: listener.tls(), handle: server.handle(), server, listener }))
    }

    /// Says where to connect, on standard output, as for the other listeners.
    pub(super) fn announce(&self) {
        let scheme = if self.tls.is_some() { "https" } else { "http" };
        if let Some(address) = self.listener.address() {
            println!("E2B API on {scheme}://{address}");
        }
    }

    /// Serves until it is stopped.
    pub(super) async fn serve(self) {
        self.server.serve(self.listener).await;
    }
}

/// What connections may take, on either way in.
pub(super) fn connection_limits(config: &ServerConfig) -> ConnectionLimits {
    let listen = &config.listen;
    ConnectionLimits {
        socket: listen.max_socket_connections as usize,
        tcp: listen.max_connections as usize,
        per_address: listen.max_connections_per_address as usize,
        ..ConnectionLimits::default()
    }
}
