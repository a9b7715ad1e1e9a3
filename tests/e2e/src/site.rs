//! A web server on the host's loopback, for what guests fetch through the network they are given: pages by their path,
//! and a record of everything that was asked for.

use std::collections::BTreeMap;
use std::convert::Infallible;
use std::net::SocketAddr;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use http_body_util::Full;
use hyper::body::Bytes;
use hyper::header::{AUTHORIZATION, CONTENT_TYPE, HOST, HeaderValue, LOCATION};
use hyper::service::service_fn;
use hyper::{Request, Response, StatusCode};
use hyper_util::rt::TokioIo;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::TcpListener;
use tokio::task::AbortHandle;
use tokio_rustls::TlsAcceptor;
use tokio_rustls::rustls::ServerConfig;

/// A server, for as long as it is kept.
#[derive(Debug)]
pub struct Site {
    address: SocketAddr,
    inner: Arc<Mutex<Inner>>,
    accepting: AbortHandle,
}

#[derive(Debug, Default)]
struct Inner {
    /// Content and its type, by path.
    pages: BTreeMap<String, (&'static str, Bytes)>,
    /// Where else a path is to be looked for.
    redirects: BTreeMap<String, HeaderValue>,
    connections: usize,
    /// Those that have not ended.
    open: usize,
    heard: Vec<String>,
    keys: Vec<String>,
}

impl Site {
    /// One that speaks plain HTTP.
    ///
    /// # Panics
    /// When there is no port.
    pub async fn plain() -> Self {
        Self::open(None).await
    }

    /// One that speaks HTTP over TLS.
    ///
    /// # Panics
    /// When there is no port.
    pub async fn secure(config: Arc<ServerConfig>) -> Self {
        Self::open(Some(TlsAcceptor::from(config))).await
    }

    async fn open(tls: Option<TlsAcceptor>) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.expect("a port");
        let address = listener.local_addr().expect("an address");
        let inner = Arc::new(Mutex::new(Inner::default()));
        let shared = Arc::clone(&inner);
        let accepting = tokio::spawn(async move {
            while let Ok((stream, _)) = listener.accept().await {
                {
                    let mut inner = lock(&shared);
                    inner.connections += 1;
                    inner.open += 1;
                }
                let (shared, tls) = (Arc::clone(&shared), tls.clone());
                tokio::spawn(async move {
                    match tls {
                        None => serve(stream, &shared).await,
                        // A handshake that fails is the client's to tell.
                        Some(tls) => {
                            if let Ok(stream) = tls.accept(stream).await {
                                serve(stream, &shared).await;
                            }
                        }
                    }
                    lock(&shared).open -= 1;
                });
            }
        });
        Self { address, inner, accepting: accepting.abort_handle() }
    }

    /// Where it is.
    #[must_use]
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// Adds a page.
    pub fn put(&self, path: &str, kind: &'static str, content: impl Into<Bytes>) {
        lock(&self.inner).pages.insert(path.to_owned(), (kind, content.into()));
    }

    /// Sends whoever asks for a path to another place.
    ///
    /// # Panics
    /// When the place cannot be said.
    pub fn redirect(&self, path: &str, place: &str) {
        let place = HeaderValue::from_str(place).expect("a place");
        lock(&self.inner).redirects.insert(path.to_owned(), place);
    }

    /// Connections that reached it so far.
    #[must_use]
    pub fn connections(&self) -> usize {
        lock(&self.inner).connections
    }

    /// Connections to it that have not ended.
    #[must_use]
    pub fn open_connections(&self) -> usize {
        lock(&self.inner).open
    }

    /// What it was asked for so far: method, host and path.
    #[must_use]
    pub fn heard(&self) -> Vec<String> {
        lock(&self.inner).heard.clone()
    }

    /// The credentials that requests came with so far.
    #[must_use]
    pub fn keys(&self) -> Vec<String> {
        lock(&self.inner).keys.clone()
    }
}

impl Drop for Site {
    fn drop(&mut self) {
        self.accepting.abort();
    }
}

async fn serve(stream: impl AsyncRead + AsyncWrite + Unpin, inner: &Arc<Mutex<Inner>>) {
    let service = service_fn(|request| {
        let answer = answer(&request, &mut lock(inner));
        async move { Ok::<_, Infallible>(answer) }
    });
    // Clients that go away are no fault of the server's.
    let _ = hyper::server::conn::http1::Builder::new().serve_connection(TokioIo::new(stream), service).await;
}

fn answer<B>(request: &Request<B>, inner: &mut Inner) -> Response<Full<Bytes>> {
    let (method, path) = (request.method(), request.uri().path());
    let host = request.headers().get(HOST).and_then(|host| host.to_str().ok()).unwrap_or("nobody");
    inner.heard.push(format!("{method} {host} {path}"));
    let key = request.headers().get(AUTHORIZATION).and_then(|key| key.to_str().ok());
    inner.keys.extend(key.map(str::to_owned));
    if let Some(place) = inner.redirects.get(path) {
        let mut elsewhere = Response::new(Full::default());
        *elsewhere.status_mut() = StatusCode::FOUND;
        elsewhere.headers_mut().insert(LOCATION, place.clone());
        return elsewhere;
    }
    let Some((kind, content)) = inner.pages.get(path) else {
        let mut missing = Response::new(Full::default());
        *missing.status_mut() = StatusCode::NOT_FOUND;
        return missing;
    };
    let mut page = Response::new(Full::new(content.clone()));
    page.headers_mut().insert(CONTENT_TYPE, HeaderValue::from_static(kind));
    page
}

fn lock(inner: &Mutex<Inner>) -> MutexGuard<'_, Inner> {
    inner.lock().unwrap_or_else(PoisonError::into_inner)
}
