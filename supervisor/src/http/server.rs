//! The server: HTTP/1.1 and HTTP/2 on one listener, with or without TLS.

use std::convert::Infallible;
use std::fmt;
use std::io;
use std::net::SocketAddr;
use std::pin::pin;
use std::sync::Arc;
use std::time::Duration;

use axum::body::Body;
use axum::http::Request;
use futures::StreamExt as _;
use hyper::body::Incoming;
use hyper::service::service_fn;
use hyper_util::rt::{TokioExecutor, TokioIo, TokioTimer};
use hyper_util::server::conn::auto::Builder;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::TcpListener;
use tokio::sync::watch;
use tokio::task::JoinSet;

use super::activity::Activity;
use super::front::Front;
use super::port::Scheme;
use crate::door::{ConnectionLimits, Informed, Places, Tls, TlsError, TlsFiles, incoming};

/// Largest header list taken from a caller.
const MAX_HEADERS: u32 = 16 * 1024;
/// What is read ahead of an HTTP/1.1 connection.
const READ_AHEAD: usize = 64 * 1024;
/// How long a connection of HTTP/1.1 may take over the headers of its next request, and so how long it may be idle.
const NEXT_REQUEST: Duration = Duration::from_secs(120);
/// A connection of HTTP/2 that says nothing is asked this often whether it is still there,
const KEEPALIVE: Duration = Duration::from_secs(30);
/// and given up when it does not answer within this.
const KEEPALIVE_ANSWER: Duration = Duration::from_secs(20);
/// What a caller may have under way towards us, for each stream and for the connection.
const STREAM_WINDOW: u32 = 256 * 1024;
const CONNECTION_WINDOW: u32 = 1024 * 1024;
/// Streams a caller may open and give up at once before the connection is closed.
const MAX_PENDING_RESETS: usize = 64;

/// Why nothing is served.
#[derive(Debug, thiserror::Error)]
pub enum HttpError {
    /// The address cannot be had.
    #[error("cannot listen on {address}\nhint: is another program using it? see http.listen")]
    Bind {
        /// The address.
        address: SocketAddr,
        /// Why.
        #[source]
        source: io::Error,
    },
    /// The certificates cannot be had.
    #[error(transparent)]
    Tls(#[from] TlsError),
}

/// Where callers connect.
#[derive(Debug)]
pub struct HttpListener {
    listener: TcpListener,
    tls: Option<Arc<Tls>>,
}

impl HttpListener {
    /// Listens on an address, with TLS where there are files for it.
    ///
    /// # Errors
    /// When the address or a file cannot be had.
    pub async fn bind(address: SocketAddr, files: Option<TlsFiles>) -> Result<Self, HttpError> {
        let tls = files.map(Tls::open).transpose()?.map(Arc::new);
        let listener =
            TcpListener::bind(address).await.map_err(|source| HttpError::Bind { address, source })?;
        Ok(Self { listener, tls })
    }

    /// The certificates, for whoever reloads them.
    #[must_use]
    pub fn tls(&self) -> Option<Arc<Tls>> {
        self.tls.clone()
    }

    /// The address, which differs from the asked one for port 0.
    #[must_use]
    pub fn address(&self) -> Option<SocketAddr> {
        self.listener.local_addr().ok()
    }
}

/// The front, ready to be served.
pub struct HttpServer {
    front: Arc<Front>,
    limits: Arc<ConnectionLimits>,
    places: Places,
    builder: Builder<TokioExecutor>,
    stop: watch::Sender<bool>,
}

impl fmt::Debug for HttpServer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("HttpServer").finish_non_exhaustive()
    }
}

impl HttpServer {
    /// A server of this front with so many requests at a time on one connection of HTTP/2.
    #[must_use]
    pub fn new(front: Front, limits: ConnectionLimits, max_streams: u32) -> Self {
        let mut builder = Builder::new(TokioExecutor::new());
        builder
            .http1()
            .timer(TokioTimer::new())
            .header_read_timeout(NEXT_REQUEST)
            .max_buf_size(READ_AHEAD)
            .half_close(false);
        builder
            .http2()
            .timer(TokioTimer::new())
            .max_concurrent_streams(max_streams)
            .keep_alive_interval(KEEPALIVE)
            .keep_alive_timeout(KEEPALIVE_ANSWER)
            .initial_stream_window_size(STREAM_WINDOW)
            .initial_connection_window_size(CONNECTION_WINDOW)
            .max_header_list_size(MAX_HEADERS)
            .max_pending_accept_reset_streams(MAX_PENDING_RESETS);
        Self {
            front: Arc::new(front),
            places: Places::new(limits.tcp, limits.per_address),
            limits: Arc::new(limits),
            builder,
            stop: watch::channel(false).0,
        }
    }

    /// What stops it.
    #[must_use]
    pub fn handle(&self) -> HttpHandle {
        HttpHandle { stop: self.stop.clone() }
    }

    /// Serves until it is stopped, and those that are there are done. Dropped, it drops them.
    pub async fn serve(self, listener: HttpListener) {
        let HttpListener { listener, tls } = listener;
        if let Ok(address) = listener.local_addr() {
            self.front.announce(address, tls.is_some());
        }
        let mut connections = JoinSet::new();
        let mut incoming = pin!(incoming(&listener, &self.places, false, &self.limits));
        let mut stopped = self.stop.subscribe();
        loop {
            let connection = tokio::select! {
                // The sender lives in `self`.
                () = async { drop(stopped.wait_for(|stop| *stop).await) } => break,
                Some(_) = connections.join_next() => continue,
                connection = incoming.next() => connection,
            };
            let Some(Ok(connection)) = connection else { break };
            match &tls {
                Some(tls) => connections
                    .spawn(self.connection(tls.accept(connection, self.limits.greeting), Scheme::Https)),
                None => connections.spawn(self.connection(connection, Scheme::Http)),
            };
        }
        while connections.join_next().await.is_some() {}
    }

    /// Serves one connection.
    fn connection<IO>(&self, io: IO, scheme: Scheme) -> impl Future<Output = ()> + Send + 'static
    where
        IO: AsyncRead + AsyncWrite + Informed + Unpin + Send + 'static,
    {
        let info = io.info();
        let front = Arc::clone(&self.front);
        let activity = Activity::default();
        let idle = activity.idle_for(self.limits.idle);
        let answer = service_fn(move |request: Request<Incoming>| {
            let (front, info, busy) = (Arc::clone(&front), info.clone(), activity.begin());
            async move {
                let mut request = request.map(Body::new);
                request.extensions_mut().insert(info);
                request.extensions_mut().insert(scheme);
                Ok::<_, Infallible>(busy.until_the_end_of(front.handle(request).await))
            }
        });
        let builder = self.builder.clone();
        let mut stopped = self.stop.subscribe();
        async move {
            let mut connection = pin!(builder.serve_connection_with_upgrades(TokioIo::new(io), answer));
            let ended = tokio::select! {
                ended = connection.as_mut() => ended,
                () = async {
                    tokio::select! {
                        _ = stopped.wait_for(|stop| *stop) => {}
                        () = idle => {}
                    }
                } => {
                    connection.as_mut().graceful_shutdown();
                    connection.await
                }
            };
            if let Err(error) = ended {
                tracing::debug!(%error, "a connection ended early");
            }
        }
    }
}

/// Stops a server that serves.
#[derive(Debug, Clone)]
pub struct HttpHandle {
    stop: watch::Sender<bool>,
}

impl HttpHandle {
    /// Takes no more connections, and ends once those that are there are done.
    pub fn stop(&self) {
        self.stop.send_replace(true);
    }
}
