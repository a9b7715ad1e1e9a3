//! What a sandbox answers at port 49999 as E2B's code interpreter does: contexts, and code that is run in them. Other
//! paths of the port lead to whatever program serves it.
//!
//! ```text
//! POST   /execute                 runs code; the answer is a line of JSON for each event
//! GET    /contexts, POST          lists contexts, makes one
//! DELETE /contexts/<id>           removes one
//! POST   /contexts/<id>/restart   has one begin anew
//! GET    /health                  is it there?
//! ```

mod admit;
mod answer;
mod contexts;
mod execute;
mod language;
mod lines;

use axum::body::Body;
use axum::http::{Method, Request, Response, StatusCode};

use self::answer::text;
use super::envd::gone;
use super::front::Front;
use super::query;

/// Largest body: code of the largest size, much of it escaped.
const MAX_BODY: usize = 3 << 20;
/// The port of the code interpreter.
pub(super) const PORT: u16 = 49999;

/// What is asked for.
#[derive(Debug, Clone, PartialEq, Eq)]
enum Route {
    Health,
    Execute,
    List,
    Create,
    Remove(String),
    Restart(String),
    /// A path of ours, and another verb.
    Other,
}

/// Whether a request to the port is for the interpreter.
pub(super) fn answers(request: &Request<Body>) -> bool {
    route(request.method(), request.uri().path()).is_some()
}

fn route(method: &Method, path: &str) -> Option<Route> {
    let parts: Vec<&str> = path.strip_prefix('/')?.split('/').collect();
    let context = |id: &str| query::segment(id);
    Some(match (method.as_str(), &parts[..]) {
        ("GET", ["health"]) => Route::Health,
        ("POST", ["execute"]) => Route::Execute,
        ("GET", ["contexts"]) => Route::List,
        ("POST", ["contexts"]) => Route::Create,
        ("DELETE", ["contexts", id]) => Route::Remove(context(id)?),
        ("POST", ["contexts", id, "restart"]) => Route::Restart(context(id)?),
        (_, ["execute"] | ["contexts"] | ["contexts", ..]) => Route::Other,
        _ => return None,
    })
}

/// Answers a request for the interpreter of a sandbox.
pub(super) async fn handle(front: &Front, sandbox: String, request: Request<Body>) -> Response<Body> {
    let (parts, body) = request.into_parts();
    let Some(route) = route(&parts.method, parts.uri.path()) else {
        return text(StatusCode::NOT_FOUND, "there is no such route");
    };
    let name = match &route {
        Route::Health if front.service.is_running(&sandbox) => return text(StatusCode::OK, "\"OK\""),
        Route::Health => return gone(&sandbox),
        Route::Other => return text(StatusCode::METHOD_NOT_ALLOWED, "this route has other methods"),
        Route::Execute => "Interpreter/Execute",
        Route::List => "Interpreter/ListContexts",
        Route::Create => "Interpreter/CreateContext",
        Route::Remove(_) => "Interpreter/RemoveContext",
        Route::Restart(_) => "Interpreter/RestartContext",
    };
    let call = match admit::by_token(front, name, &sandbox, &parts) {
        Ok(call) => call,
        Err(refusal) => return refusal.into_response(),
    };
    // What goes wrong with that, the call itself meets.
    let _ = front.service.wake(&call.caller, &sandbox).await;
    match route {
        Route::Execute => execute::answer(front, sandbox, call, body).await,
        Route::List => contexts::list(front, &sandbox, call).await,
        Route::Create => contexts::create(front, &sandbox, call, body).await,
        Route::Remove(id) => contexts::remove(front, &sandbox, call, &id).await,
        Route::Restart(id) => contexts::restart(front, &sandbox, call, &id).await,
        Route::Health | Route::Other => text(StatusCode::NOT_FOUND, "there is no such route"),
    }
}

#[cfg(test)]
mod tests {
    //! What is ours, and what is a program's.

    use super::*;

    #[test]
    fn paths_of_the_interpreter_are_ours_and_others_are_not() {
        let of = |method: &str, path: &str| route(&method.parse().expect("a method"), path);
        assert_eq!(of("POST", "/execute"), Some(Route::Execute));
        assert_eq!(of("DELETE", "/contexts/a-b"), Some(Route::Remove("a-b".into())));
        assert_eq!(of("POST", "/contexts/a%2Fb/restart"), Some(Route::Restart("a/b".into())));
        assert_eq!(of("PUT", "/contexts/a"), Some(Route::Other));
        for path in ["/", "/index.html", "/executed", "//execute", ""] {
            assert_eq!(of("POST", path), None, "{path}");
        }
        assert_eq!(of("DELETE", "/contexts/%zz"), None);
    }
}
