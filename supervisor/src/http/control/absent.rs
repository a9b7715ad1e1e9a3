//! What clients may ask for and this server does not have, each by its name: the SDKs show the message.

use axum::http::StatusCode;

use super::{Answer, living};
use crate::http::front::Front;
use crate::http::query::segment;
use crate::http::refusal::HttpRefusal;
use crate::service::Caller;

/// The sandbox that such a path is about: one that is gone is gone, whatever is asked of it.
pub(super) fn sandbox(path: &str) -> Option<String> {
    match parts(path).as_slice() {
        ["sandboxes", id, "snapshots" | "fork" | "logs", ..] => segment(id),
        _ => None,
    }
}

/// The answer to a path that has no route.
pub(super) async fn answer(front: &Front, caller: &Caller, path: &str, sandbox: Option<String>) -> Answer {
    if let Some(id) = sandbox {
        living(front, caller, &id).await?;
    }
    Err(refusal(path).into())
}

fn refusal(path: &str) -> HttpRefusal {
    let what = match parts(path).as_slice() {
        ["templates", ..] => "template builds; its operator makes templates with `rekindle template build`",
        ["volumes", ..] => "volumes",
        ["secrets", ..] => "secrets",
        ["snapshots", ..] | ["sandboxes", _, "snapshots", ..] => "snapshots of sandboxes",
        ["sandboxes", _, "fork"] => "forks of sandboxes",
        ["sandboxes", _, "logs"] => "logs of sandboxes over HTTP; `rekindle timeline` has what happened",
        _ => return HttpRefusal::new(StatusCode::NOT_FOUND, "there is no such route"),
    };
    HttpRefusal::not_offered(what)
}

/// What a path is made of. Versions of one differ in what is sent, not in what is asked for.
fn parts(path: &str) -> Vec<&str> {
    let mut parts: Vec<&str> = path.split('/').filter(|part| !part.is_empty()).collect();
    if matches!(parts.first(), Some(&("v2" | "v3"))) {
        parts.remove(0);
    }
    parts
}
