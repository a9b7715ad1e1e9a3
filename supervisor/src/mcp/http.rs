//! Over streamable HTTP, for clients that reach a server by its address. There are no sessions: every request stands for
//! itself, has the rights of its own token, and what it makes lives until its time is over or someone ends it.
//!
//! A web page must not reach a server on this machine by a name it chose: `Host` must be a name that is known here, and a
//! request with an `Origin` comes from here, or from one that was named.

use std::convert::Infallible;
use std::io;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use axum::http::header::{CONTENT_TYPE, WWW_AUTHENTICATE};
use axum::http::{HeaderValue, Request, Response, StatusCode};
use bytes::Bytes;
use http_body_util::combinators::BoxBody;
use http_body_util::{BodyExt as _, Full, LengthLimitError, Limited};
use hyper::body::Incoming;
use hyper_util::rt::{TokioExecutor, TokioIo, TokioTimer};
use hyper_util::server::conn::auto::Builder;
use rmcp::transport::streamable_http_server::session::never::NeverSessionManager;
use rmcp::transport::streamable_http_server::{StreamableHttpServerConfig, StreamableHttpService};
use tokio::net::TcpListener;
use tokio::sync::Semaphore;
use tokio_util::sync::CancellationToken;

use super::server::{Mcp, bearer};

/// Where the protocol is spoken.
const PATH: &str = "/mcp";
/// Largest request.
const MAX_BODY: usize = 8 << 20;
/// Connections at once.
const MAX_CONNECTIONS: usize = 64;
/// How long a request's head may take, and its body.
const HEAD_TIME: Duration = Duration::from_secs(15);
const BODY_TIME: Duration = Duration::from_secs(60);
/// A pause after an accept that failed, so that a fault does not become a busy loop.
const PAUSE: Duration = Duration::from_millis(100);

type Service = StreamableHttpService<Mcp, NeverSessionManager>;
type Answer = Response<BoxBody<Bytes, Infallible>>;

/// Where to listen, and for whom.
#[derive(Debug, Clone)]
pub struct HttpOptions {
    /// The address.
    pub listen: SocketAddr,
    /// Names by which callers reach it, beside those of this machine to itself.
    pub hosts: Vec<String>,
    /// Origins of web pages that may call.
    pub origins: Vec<String>,
}

/// Why nothing is served.
#[derive(Debug, thiserror::Error)]
pub enum HttpError {
    /// The address is for others too, and nobody said by which name.
    #[error(
        "{address} can be reached from other machines\nhint: listen on 127.0.0.1, or name with --host how callers reach it; tokens are sent as they are, so put TLS in front"
    )]
    Public {
        /// The address.
        address: SocketAddr,
    },
    /// The address cannot be used.
    #[error("cannot listen on {address}\nhint: choose another port with --listen")]
    Listen {
        /// The address.
        address: SocketAddr,
        /// What the kernel said.
        #[source]
        source: io::Error,
    },
}

/// Serves until `shutdown`. `listening` is told the address, whose port may have been chosen by the kernel.
///
/// # Errors
/// When the address cannot be used.
pub async fn serve_http(
    mcp: Mcp,
    options: HttpOptions,
    listening: impl FnOnce(SocketAddr),
    shutdown: impl Future<Output = ()>,
) -> Result<(), HttpError> {
    let address = options.listen;
    if !address.ip().is_loopback() && options.hosts.is_empty() {
        return Err(HttpError::Public { address });
    }
    let unusable = |source| HttpError::Listen { address, source };
    let listener = TcpListener::bind(address).await.map_err(unusable)?;
    let bound = listener.local_addr().map_err(unusable)?;
    listening(bound);
    let stop = CancellationToken::new();
    let needs_token = mcp.needs_token();
    let front = Arc::new(Front { needs_token, service: service(mcp, options, bound.port(), stop.clone()) });
    let accepting = accept(listener, front);
    tokio::select! {
        () = accepting => {}
        () = shutdown => {}
    }
    stop.cancel();
    Ok(())
}

fn service(mcp: Mcp, options: HttpOptions, port: u16, stop: CancellationToken) -> Service {
    let hosts = ["localhost", "127.0.0.1", "::1"].into_iter().map(str::to_owned).chain(options.hosts);
    // Its own origin is nobody else's: there are no pages here.
    let own = ["localhost", "127.0.0.1", "[::1]"].map(|name| format!("http://{name}:{port}"));
    let origins = own.into_iter().chain(options.origins);
    let config = StreamableHttpServerConfig::default()
        .with_legacy_session_mode(false)
        .with_json_response(true)
        .with_allowed_hosts(hosts)
        .with_allowed_origins(origins)
        .enforce_origin_validation()
        .with_max_request_body_bytes(MAX_BODY)
        .with_cancellation_token(stop);
    StreamableHttpService::new(move || Ok(mcp.clone()), Arc::default(), config)
}

/// Checks path, token and size of a request before the protocol sees it.
struct Front {
    needs_token: bool,
    service: Service,
}

async fn accept(listener: TcpListener, front: Arc<Front>) {
    let places = Arc::new(Semaphore::new(MAX_CONNECTIONS));
    loop {
        let Ok(place) = Arc::clone(&places).acquire_owned().await else { return };
        let stream = match listener.accept().await {
            Ok((stream, _)) => stream,
            Err(error) => {
                tracing::warn!(%error, "a connection could not be accepted");
                tokio::time::sleep(PAUSE).await;
                continue;
            }
        };
        let front = Arc::clone(&front);
        tokio::spawn(async move {
            let answer = hyper::service::service_fn(move |request| {
                let front = Arc::clone(&front);
                async move { Ok::<_, Infallible>(front.answer(request).await) }
            });
            let mut builder = Builder::new(TokioExecutor::new()).http1_only();
            builder.http1().timer(TokioTimer::new()).header_read_timeout(HEAD_TIME);
            // A connection that breaks is its caller's own affair.
            let _ = builder.serve_connection(TokioIo::new(stream), answer).await;
            drop(place);
        });
    }
}

impl Front {
    async fn answer(&self, request: Request<Incoming>) -> Answer {
        if request.uri().path() != PATH {
            return refuse(StatusCode::NOT_FOUND, "the protocol is spoken at /mcp");
        }
        let (parts, body) = request.into_parts();
        // Before anything of the body is read.
        match bearer(&parts) {
            Ok(Some(_)) => {}
            Ok(None) if !self.needs_token => {}
            Ok(None) | Err(()) => {
                let mut answer =
                    refuse(StatusCode::UNAUTHORIZED, "show a token: Authorization: Bearer TOKEN");
                answer.headers_mut().insert(WWW_AUTHENTICATE, HeaderValue::from_static("Bearer"));
                return answer;
            }
        }
        let body = match tokio::time::timeout(BODY_TIME, Limited::new(body, MAX_BODY).collect()).await {
            Ok(Ok(body)) => body.to_bytes(),
            Ok(Err(error)) if error.is::<LengthLimitError>() => {
                return refuse(StatusCode::PAYLOAD_TOO_LARGE, "a request has at most 8 MiB");
            }
            Ok(Err(_)) => return refuse(StatusCode::BAD_REQUEST, "the request broke off"),
            Err(_) => return refuse(StatusCode::REQUEST_TIMEOUT, "the request took too long to arrive"),
        };
        self.service.handle(Request::from_parts(parts, Full::new(body))).await
    }
}

fn refuse(status: StatusCode, message: &'static str) -> Answer {
    let mut answer = Response::new(Full::new(Bytes::from_static(message.as_bytes())).boxed());
    *answer.status_mut() = status;
    answer.headers_mut().insert(CONTENT_TYPE, HeaderValue::from_static("text/plain"));
    answer
}
