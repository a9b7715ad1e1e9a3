//! The control plane: sandboxes made, found, listed and ended. One file per verb.
//!
//! ```text
//! method and path ──▶ route ──▶ who calls (key) ──▶ the verb's file ──▶ service ──▶ view (what a client is told)
//! ```

mod absent;
mod connect;
mod create;
mod get;
mod kill;
mod list;
mod metrics;
mod network;
mod pause;
mod route;
mod templates;
mod timeout;
mod view;

use axum::body::Body;
use axum::http::{Request, Response, StatusCode};

use self::route::Route;
use super::front::{Call, Failure, Front};
use super::refusal::HttpRefusal;
use crate::service::{SandboxState, SandboxView, ServiceError};

/// Largest body.
const MAX_BODY: usize = 1 << 20;

/// What a verb answers.
type Answer = Result<Response<Body>, Failure>;

/// Answers a request of the control plane.
pub(super) async fn handle(front: &Front, request: Request<Body>) -> Response<Body> {
    let (parts, body) = request.into_parts();
    let route = match Route::of(&parts.method, parts.uri.path()) {
        // Whether there is a server says nothing about who has sandboxes.
        Some(Route::Health) => return health(front),
        route => route,
    };
    let method = route.as_ref().map_or("unknown", Route::word);
    let mut call = match front.admit_key(method, &parts) {
        Ok(call) => call,
        Err(refusal) => return refusal.into_response(),
    };
    if let Some(sandbox) = route.as_ref().and_then(Route::sandbox) {
        call.record.about(sandbox);
    }
    let query = parts.uri.query().unwrap_or_default();
    let Call { caller, .. } = &call;
    let caller = caller.clone();
    let Some(route) = route else {
        let path = parts.uri.path();
        let sandbox = absent::sandbox(path);
        if let Some(sandbox) = &sandbox {
            call.record.about(sandbox);
        }
        return call.answer(absent::answer(front, &caller, path, sandbox)).await;
    };
    match route {
        Route::Create => create::answer(front, call, &parts, body).await,
        Route::Get(id) => call.answer(get::answer(front, &caller, &id)).await,
        Route::List => call.answer(list::answer(front, &caller, query)).await,
        Route::Kill(id) => call.answer(kill::answer(front, &caller, &id)).await,
        Route::SetTimeout(id) => call.answer(timeout::answer(front, &caller, &id, body)).await,
        Route::Connect(id) => call.answer(connect::answer(front, &caller, &id, body)).await,
        Route::Pause(id) => call.answer(pause::answer(front, &caller, &id, body)).await,
        Route::Metrics(id) => call.answer(metrics::answer(front, &caller, &id, query)).await,
        Route::UpdateNetwork(id) => call.answer(network::answer(front, &caller, &id, body)).await,
        Route::TemplateAlias(name) => call.answer(async { templates::answer(front, &name) }).await,
        Route::Health => health(front),
    }
}

/// Whether the server takes sandboxes.
fn health(front: &Front) -> Response<Body> {
    if front.service.overview().draining {
        return HttpRefusal::from(&ServiceError::ShuttingDown).into_response();
    }
    empty(StatusCode::OK)
}

/// An answer that says nothing but its status.
fn empty(status: StatusCode) -> Response<Body> {
    let mut response = Response::new(Body::empty());
    *response.status_mut() = status;
    response
}

/// A sandbox that has not ended: to clients of this API one that has ended is one that is not there.
async fn living(
    front: &Front,
    caller: &crate::service::Caller,
    id: &str,
) -> Result<SandboxView, ServiceError> {
    let view = front.service.get(caller, id).await?;
    match view.state {
        SandboxState::Running | SandboxState::Paused => Ok(view),
        SandboxState::Ending | SandboxState::Ended => Err(ServiceError::UnknownSandbox),
    }
}
