//! What a sandbox itself answers at port 49983: its programs and files, as E2B's `envd` would from inside of it.
//!
//! ```text
//! /health                      is it there?
//! /files                       one file, in or out; signed links need no token
//! /process.Process/*           programs, by Connect
//! /filesystem.Filesystem/*     directories, by Connect
//! ```
//!
//! A sandbox that is not there, or paused, is answered for with 502, as its proxy does; one that was made to be resumed
//! by its use runs again first.

mod admit;
mod entry;
mod files;
mod filesystem;
mod health;
mod keepalive;
mod process;
mod rpc;
mod signature;
mod trouble;
mod user;

pub(super) use trouble::{gone, is_gone};

use axum::body::Body;
use axum::http::{Method, Request, Response, StatusCode};

use super::front::{Front, Target};
use super::refusal::HttpRefusal;

/// Answers a request for port 49983 of a sandbox.
pub(super) async fn handle(front: &Front, request: Request<Body>) -> Response<Body> {
    let (parts, body) = request.into_parts();
    let id = match parts.extensions.get() {
        Some(Target::Sandbox { id, .. }) => id.clone(),
        Some(Target::Control) | None => None,
    };
    match (&parts.method, parts.uri.path(), id) {
        (&Method::GET, "/health", Some(id)) => health::answer(front, &id),
        (&Method::GET, "/files", id) => files::read(front, id, parts).await,
        (&Method::POST, "/files", id) => files::write(front, id, parts, body).await,
        (&Method::POST, _, Some(id)) => rpc::answer(front, id, parts, body).await,
        _ => HttpRefusal::new(StatusCode::NOT_FOUND, "there is no such route").into_response(),
    }
}
