//! A small HTTP server for `/metrics` and `/healthz`. Started by `serve` when `telemetry.metrics_listen` is set.
//!
//! It has no authentication and serves nothing else; whoever reaches it costs it one of few connections, for
//! a bounded time. A new connection is always taken: when there are too many, the oldest makes room, so that
//! half requests, however many, close each other and not the door.

use std::collections::VecDeque;
use std::convert::Infallible;
use std::future::Future;
use std::io;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use http_body_util::Full;
use hyper::header::{ALLOW, CONTENT_TYPE, HeaderValue};
use hyper::service::service_fn;
use hyper::{Method, Request, Response, StatusCode};
use hyper_util::rt::{TokioIo, TokioTimer};
use tokio::net::{TcpListener, TcpStream};
use tokio::task::{AbortHandle, JoinSet};

/// Connections at a time.
const MAX_CONNECTIONS: usize = 64;
/// How long one request with its answer may take.
const MAX_TIME: Duration = Duration::from_secs(20);
/// How long a request may take to arrive.
const HEADER_TIME: Duration = Duration::from_secs(5);
/// After a failed accept (no descriptors, mostly), before the next.
const AFTER_FAILURE: Duration = Duration::from_millis(200);
/// The format of [`super::Metrics::encode`].
const OPEN_METRICS: &str = "application/openmetrics-text; version=1.0.0; charset=utf-8";

/// Why there is no server.
#[derive(Debug, thiserror::Error)]
#[error("cannot serve metrics on {address}\nhint: choose another telemetry.metrics_listen")]
pub struct ServeError {
    /// Where.
    pub address: SocketAddr,
    /// What the kernel said.
    #[source]
    pub source: io::Error,
}

/// What the pages show. Both are asked for at each request, so figures are as of now.
struct Pages {
    metrics: Box<dyn Fn() -> String + Send + Sync>,
    healthy: Box<dyn Fn() -> bool + Send + Sync>,
}

/// A server that has its address and does not serve yet.
pub struct MetricsServer {
    listener: TcpListener,
    pages: Arc<Pages>,
    patience: Patience,
}

/// How long a connection may take.
#[derive(Debug, Clone, Copy)]
struct Patience {
    /// Until its request has arrived.
    header: Duration,
    /// In all.
    whole: Duration,
}

impl MetricsServer {
    /// Takes the address. `metrics` gives the text of `/metrics`, `healthy` whether calls are taken.
    ///
    /// # Errors
    /// When the address cannot be had.
    pub async fn bind(
        address: SocketAddr,
        metrics: impl Fn() -> String + Send + Sync + 'static,
        healthy: impl Fn() -> bool + Send + Sync + 'static,
    ) -> Result<Self, ServeError> {
        let listener = TcpListener::bind(address).await.map_err(|source| ServeError { address, source })?;
        Ok(Self {
            listener,
            pages: Arc::new(Pages { metrics: Box::new(metrics), healthy: Box::new(healthy) }),
            patience: Patience { header: HEADER_TIME, whole: MAX_TIME },
        })
    }

    /// The address it got, which differs from the asked one for port 0.
    ///
    /// # Errors
    /// When the kernel does not say.
    pub fn address(&self) -> io::Result<SocketAddr> {
        self.listener.local_addr()
    }

    /// Serves until `shutdown` is done; then requests under way are dropped.
    pub async fn serve(self, shutdown: impl Future<Output = ()>) {
        let mut connections = JoinSet::new();
        let mut by_age: VecDeque<AbortHandle> = VecDeque::new();
        tokio::pin!(shutdown);
        loop {
            let accepted = tokio::select! {
                () = &mut shutdown => return,
                accepted = self.listener.accept() => accepted,
                // Ended ones are taken away as they end.
                Some(_) = connections.join_next() => continue,
            };
            match accepted {
                Ok((stream, _)) => {
                    by_age.retain(|connection| !connection.is_finished());
                    if by_age.len() >= MAX_CONNECTIONS
                        && let Some(oldest) = by_age.pop_front()
                    {
                        oldest.abort();
                    }
                    let connection = connection(stream, Arc::clone(&self.pages), self.patience);
                    by_age.push_back(connections.spawn(connection));
                }
                Err(error) => {
                    tracing::warn!(%error, "a metrics connection could not be taken");
                    tokio::time::sleep(AFTER_FAILURE).await;
                }
            }
        }
    }
}

async fn connection(stream: TcpStream, pages: Arc<Pages>, patience: Patience) {
    let service = service_fn(|request| {
        let answer = answer(&request, &pages);
        async move { Ok::<_, Infallible>(answer) }
    });
    let serving = hyper::server::conn::http1::Builder::new()
        .timer(TokioTimer::new())
        .header_read_timeout(patience.header)
        .keep_alive(false)
        .serve_connection(TokioIo::new(stream), service);
    match tokio::time::timeout(patience.whole, serving).await {
        Ok(Ok(())) => {}
        Ok(Err(error)) => tracing::debug!(%error, "a metrics request failed"),
        Err(_) => tracing::debug!("a metrics request took too long"),
    }
}

fn answer<B>(request: &Request<B>, pages: &Pages) -> Response<Full<Bytes>> {
    if request.method() != Method::GET {
        let mut refusal = page(StatusCode::METHOD_NOT_ALLOWED, "text/plain", "only GET is served here\n");
        refusal.headers_mut().insert(ALLOW, HeaderValue::from_static("GET"));
        return refusal;
    }
    match request.uri().path() {
        "/metrics" => page(StatusCode::OK, OPEN_METRICS, (pages.metrics)()),
        "/healthz" if (pages.healthy)() => page(StatusCode::OK, "text/plain", "ok\n"),
        "/healthz" => page(StatusCode::SERVICE_UNAVAILABLE, "text/plain", "not serving\n"),
        _ => page(StatusCode::NOT_FOUND, "text/plain", "only /metrics and /healthz are served here\n"),
    }
}

fn page(status: StatusCode, kind: &'static str, body: impl Into<Bytes>) -> Response<Full<Bytes>> {
    let mut response = Response::new(Full::new(body.into()));
    *response.status_mut() = status;
    response.headers_mut().insert(CONTENT_TYPE, HeaderValue::from_static(kind));
    response
}

#[cfg(test)]
mod tests;
