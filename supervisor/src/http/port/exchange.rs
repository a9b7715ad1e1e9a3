//! One request to a program and its answer, each as a stream, on a connection of their own.

use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;

use axum::body::Body;
use axum::http::{Request, Response, StatusCode, Uri, Version, uri::PathAndQuery};
use bytes::Bytes;
use hyper::body::{Frame, Incoming, SizeHint};
use hyper::client::conn::http1;
use hyper_util::rt::TokioIo;
use tokio::sync::OwnedSemaphorePermit;
use tokio::time::timeout;
use tokio_util::task::AbortOnDropHandle;

use super::{NoAnswer, headers, upgrade};
use crate::door::Standing;
use crate::service::{PortConnection, PortHold};

/// How long a program may take until the headers of its answer are there. Programs of people's own are slow at times;
/// what comes after the headers may take as long as it likes.
const HEADERS: Duration = Duration::from_secs(600);
/// What is read ahead of a program's answer, and so the most that its headers may be.
const READ_AHEAD: usize = 64 * 1024;

/// What an answer needs as long as it goes on. Without it the connection to the program is reset.
pub(super) struct Held {
    pub hold: Arc<PortHold>,
    _driver: AbortOnDropHandle<()>,
    _place: OwnedSemaphorePermit,
}

/// Sends a request to the program and returns its answer once its headers are there.
pub(super) async fn exchange(
    connection: PortConnection,
    place: OwnedSemaphorePermit,
    mut request: Request<Body>,
    standing: Option<Standing>,
) -> Result<Response<Body>, NoAnswer> {
    let PortConnection { stream, hold, host } = connection;
    let wanted = headers::upgrade(request.headers()).filter(|_| request.version() == Version::HTTP_11);
    let visitor = wanted.as_ref().map(|_| hyper::upgrade::on(&mut request));
    let mut request = inward(request, host.as_deref());
    if let Some(to) = wanted {
        headers::set_upgrade(request.headers_mut(), to);
    }
    let hold = Arc::new(hold);
    let io = TokioIo::new(stream);
    // As programs know headers: some that were written by hand look for `Host` and not for `host`.
    let mut builder = http1::Builder::new();
    builder.max_buf_size(READ_AHEAD).title_case_headers(true);
    let speaking = builder.handshake::<_, Body>(io).await;
    let (mut sender, driver) = speaking.map_err(|_| NoAnswer::Broken)?;
    let watched = Arc::clone(&hold);
    let driver = AbortOnDropHandle::new(tokio::spawn(async move {
        tokio::select! {
            // What went wrong, whoever waits for the answer hears.
            _ = driver.with_upgrades() => {}
            () = watched.over() => {}
        }
    }));
    let held = Held { hold, _driver: driver, _place: place };
    let answer = timeout(HEADERS, sender.send_request(request)).await.map_err(|_| NoAnswer::Late)?;
    let answer = answer.map_err(|_| NoAnswer::Broken)?;
    match (answer.status(), visitor) {
        (StatusCode::SWITCHING_PROTOCOLS, Some(visitor)) => {
            Ok(upgrade::begin(answer, visitor, held, standing))
        }
        // Nobody has asked for that.
        (StatusCode::SWITCHING_PROTOCOLS, None) => Err(NoAnswer::Broken),
        _ => Ok(outward(answer, held)),
    }
}

/// The request as the program gets it.
fn inward(request: Request<Body>, host: Option<&str>) -> Request<Body> {
    let (parts, body) = request.into_parts();
    let mut onward = Request::new(body);
    *onward.method_mut() = parts.method;
    let path = parts.uri.path_and_query().cloned().unwrap_or_else(|| PathAndQuery::from_static("/"));
    *onward.uri_mut() = Uri::from(path);
    *onward.headers_mut() = parts.headers;
    headers::inward(onward.headers_mut(), &parts.uri, &parts.extensions);
    if let Some(host) = host {
        headers::set_host(onward.headers_mut(), host);
    }
    onward
}

/// The answer as the visitor gets it.
fn outward(answer: Response<Incoming>, held: Held) -> Response<Body> {
    let (mut parts, body) = answer.into_parts();
    headers::outward(&mut parts.headers);
    let mut onward = Response::new(Body::new(HeldBody { body, _held: held }));
    *onward.status_mut() = parts.status;
    *onward.headers_mut() = parts.headers;
    onward
}

/// A program's answer, with what it needs.
struct HeldBody {
    body: Incoming,
    _held: Held,
}

impl hyper::body::Body for HeldBody {
    type Data = Bytes;
    type Error = hyper::Error;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, hyper::Error>>> {
        Pin::new(&mut self.body).poll_frame(cx)
    }

    fn is_end_stream(&self) -> bool {
        self.body.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.body.size_hint()
    }
}
