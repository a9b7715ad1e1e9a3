//! What programs in a sandbox serve at ports of their own: every request goes to its program, the answer comes back.
//!
//! ```text
//! request ──▶ who? (admit) ──▶ service: connected to the port ──▶ exchange: HTTP/1.1 both ways, as streams
//!                                                                    └─ upgraded: bytes both ways
//! ```
//!
//! Nothing of what programs say is believed or kept; of what visitors send, all but our own tokens goes in.

mod admit;
mod exchange;
mod headers;
mod upgrade;

use std::sync::Arc;
use std::time::Duration;

use axum::body::Body;
use axum::http::{Method, Request, Response, StatusCode};
use serde_json::json;

use self::admit::Admission;
pub(super) use self::headers::Scheme;
use super::envd::{gone, is_gone};
use super::front::{Front, lost, revocable};
use super::refusal::{HttpRefusal, Retry, json_response, word};
use crate::door::Standing;
use crate::service::{ErrorKind, ServiceError};

/// Requests to ports of sandboxes at a time, over all of them. A sandbox has its own bound.
pub(super) const PLACES: usize = 1024;
/// When one that found no place is worth trying again.
const AGAIN: Duration = Duration::from_secs(1);
/// What the audit log and the metrics call it.
const METHOD: &str = "Port/Request";

/// Why a program's answer did not come.
#[derive(Debug)]
enum NoAnswer {
    /// There was no connection.
    Service(ServiceError),
    /// What the request is cannot be passed on.
    Request(HttpRefusal),
    /// Too much is under way.
    Full,
    /// It broke off, or said something that is not HTTP.
    Broken,
    /// It took too long.
    Late,
}

/// Answers a request for a port of a sandbox.
pub(super) async fn handle(
    front: &Front,
    sandbox: &str,
    port: u16,
    request: Request<Body>,
) -> Response<Body> {
    let mut admission = match admit::visitor(front, sandbox, &request) {
        Ok(admission) => admission,
        Err(response) => return *response,
    };
    let standing = admission.standing.take();
    let answered = tokio::select! {
        answered = answer(front, &admission, sandbox, port, request, standing.clone()) => answered,
        () = lost(standing.clone()) => {
            admission.record.revoked().store(true, std::sync::atomic::Ordering::Release);
            return HttpRefusal::unauthenticated().into_response();
        }
    };
    let revoked = Arc::clone(admission.record.revoked());
    match answered {
        Ok(response) => {
            admission.record.settle(&Ok(()), "ok");
            revocable(response, standing, revoked)
        }
        Err(reason) => {
            let response = refused(sandbox, port, &reason);
            match reason {
                NoAnswer::Service(error) => {
                    admission.record.settle::<()>(&Err(error), word(response.status()));
                }
                NoAnswer::Request(_) => admission.record.reject("malformed_request", word(response.status())),
                NoAnswer::Full | NoAnswer::Broken | NoAnswer::Late => {
                    admission.record.settle(&Ok(()), word(response.status()));
                }
            }
            response
        }
    }
}

async fn answer(
    front: &Front,
    admission: &Admission,
    sandbox: &str,
    port: u16,
    request: Request<Body>,
    standing: Option<Standing>,
) -> Result<Response<Body>, NoAnswer> {
    if request.method() == Method::CONNECT {
        let message = "a port of a sandbox is no proxy";
        return Err(NoAnswer::Request(HttpRefusal::new(StatusCode::METHOD_NOT_ALLOWED, message)));
    }
    let place = Arc::clone(&front.ports).try_acquire_owned().map_err(|_| NoAnswer::Full)?;
    let connected = front.service.connect_port(admission.visitor(), sandbox, port).await;
    exchange::exchange(connected.map_err(NoAnswer::Service)?, place, request, standing).await
}

/// What a visitor is told in place of an answer, in the form in which E2B's proxy does.
fn refused(sandbox: &str, port: u16, reason: &NoAnswer) -> Response<Body> {
    let told = |status: StatusCode, message: &str| {
        let body = json!({"sandboxId": sandbox, "message": message, "port": port, "code": status.as_u16()});
        json_response(status, &body)
    };
    match reason {
        NoAnswer::Service(ServiceError::PortClosed { .. }) => {
            told(StatusCode::BAD_GATEWAY, "The sandbox is running but port is not open")
        }
        NoAnswer::Service(error) if is_gone(error.kind()) => gone(sandbox),
        NoAnswer::Service(error) if error.kind() == ErrorKind::Busy => full(),
        NoAnswer::Service(error) => HttpRefusal::from(error).into_response(),
        NoAnswer::Request(refusal) => refusal.clone().into_response(),
        NoAnswer::Full => full(),
        NoAnswer::Broken => told(StatusCode::BAD_GATEWAY, "The program at the port did not answer with HTTP"),
        NoAnswer::Late => told(StatusCode::GATEWAY_TIMEOUT, "The program at the port did not answer in time"),
    }
}

fn full() -> Response<Body> {
    let message = "too many requests to ports are under way";
    let refusal = HttpRefusal::new(StatusCode::SERVICE_UNAVAILABLE, message);
    HttpRefusal { retry: Retry::Later(Some(AGAIN)), ..refusal }.into_response()
}
