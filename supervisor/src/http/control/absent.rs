//! What clients may ask for and this server does not have, each by its name: the SDKs show the message.

use axum::http::StatusCode;

use crate::http::refusal::HttpRefusal;

/// The answer to a path that has no route.
pub(super) fn refusal(path: &str) -> HttpRefusal {
    let parts: Vec<&str> = path.split('/').filter(|part| !part.is_empty()).collect();
    // Versions of a path differ in what is sent, not in what is asked for.
    let parts = match parts.as_slice() {
        ["v2" | "v3", rest @ ..] => rest,
        all => all,
    };
    let what = match parts {
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
