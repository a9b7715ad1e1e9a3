//! A connection that has become something other than HTTP, such as a WebSocket: bytes both ways.

use axum::body::Body;
use axum::http::{Response, StatusCode};
use hyper::body::Incoming;
use hyper::upgrade::OnUpgrade;
use hyper_util::rt::TokioIo;
use tokio::io::copy_bidirectional;

use super::exchange::Held;
use super::headers;
use crate::door::Standing;
use crate::http::front::lost;

/// The answer that begins it. Bytes go both ways until both have ended, the sandbox is paused or ends, or the token that
/// let the visitor in is gone.
pub(super) fn begin(
    mut answer: Response<Incoming>,
    visitor: OnUpgrade,
    held: Held,
    standing: Option<Standing>,
) -> Response<Body> {
    let program = hyper::upgrade::on(&mut answer);
    let to = headers::upgrade(answer.headers());
    let (mut parts, _) = answer.into_parts();
    headers::outward(&mut parts.headers);
    if let Some(to) = to {
        headers::set_upgrade(&mut parts.headers, to);
    }
    tokio::spawn(async move {
        let moving = async {
            let (visitor, program) = tokio::try_join!(visitor, program).ok()?;
            copy_bidirectional(&mut TokioIo::new(visitor), &mut TokioIo::new(program)).await.ok()
        };
        tokio::select! {
            _ = moving => {}
            () = held.hold.over() => {}
            () = lost(standing) => {}
        }
    });
    let mut onward = Response::new(Body::empty());
    *onward.status_mut() = StatusCode::SWITCHING_PROTOCOLS;
    *onward.headers_mut() = parts.headers;
    onward
}
