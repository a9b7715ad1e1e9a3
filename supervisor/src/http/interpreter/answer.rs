//! Answers in text, which the SDKs put into the exceptions they raise.

use axum::body::Body;
use axum::http::header::CONTENT_TYPE;
use axum::http::{HeaderValue, Response, StatusCode};

use crate::http::envd::{gone, is_gone};
use crate::http::front::{Call, Failure, lost};
use crate::http::refusal::{HttpRefusal, word};
use crate::service::{ErrorKind, ServiceError};

/// An answer in text.
pub(super) fn text(status: StatusCode, text: &str) -> Response<Body> {
    let mut response = Response::new(Body::from(text.to_owned()));
    *response.status_mut() = status;
    let kind = HeaderValue::from_static("text/plain; charset=utf-8");
    response.headers_mut().insert(CONTENT_TYPE, kind);
    response
}

/// Does the work of a call with one answer, as long as its token is in force, and writes down how it ended.
pub(super) async fn unary(
    mut call: Call,
    sandbox: &str,
    context: &str,
    work: impl Future<Output = Result<Response<Body>, Failure>>,
) -> Response<Body> {
    let standing = call.standing.take();
    let done = tokio::select! {
        done = work => done,
        () = lost(standing) => return call.revoked(),
    };
    match done {
        Ok(response) => {
            call.record.settle(&Ok(()), "ok");
            response
        }
        Err(failure) => failed(call, sandbox, context, failure),
    }
}

/// Ends a call that is not met.
pub(super) fn failed(mut call: Call, sandbox: &str, context: &str, failure: Failure) -> Response<Body> {
    match failure {
        Failure::Http(refusal) => {
            call.record.reject("malformed_request", refusal.word());
            text(refusal.status, &refusal.message)
        }
        Failure::Service(error) => {
            let response = refused(sandbox, context, &error);
            let word = word(response.status());
            call.record.settle::<()>(&Err(error), word);
            response
        }
    }
}

/// What is said of an error, in E2B's words where it has some.
fn refused(sandbox: &str, context: &str, error: &ServiceError) -> Response<Body> {
    match error {
        error if is_gone(error.kind()) => gone(sandbox),
        ServiceError::UnknownContext => {
            let context: String = context.chars().take(64).collect();
            text(StatusCode::NOT_FOUND, &format!("Context {context} not found"))
        }
        error => {
            let refusal = HttpRefusal::from(error);
            // Of the working directory, or of the language's program: not what was asked for by name.
            let missing = error.kind() == ErrorKind::NotFound;
            let status = if missing { StatusCode::BAD_REQUEST } else { refusal.status };
            text(status, &refusal.message)
        }
    }
}
