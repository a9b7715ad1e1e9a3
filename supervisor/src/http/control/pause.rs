//! Pauses a sandbox.

use axum::body::Body;
use axum::http::StatusCode;
use serde::Deserialize;

use super::{Answer, MAX_BODY, empty, living};
use crate::http::body;
use crate::http::front::Front;
use crate::http::refusal::HttpRefusal;
use crate::service::{Caller, SandboxState};

#[derive(Deserialize)]
struct PauseBody {
    /// Whether what is in memory is kept.
    memory: Option<bool>,
}

pub(super) async fn answer(front: &Front, caller: &Caller, id: &str, body: Body) -> Answer {
    let PauseBody { memory } = body::read(body, MAX_BODY).await?;
    if living(front, caller, id).await?.state == SandboxState::Paused {
        return Err(HttpRefusal::new(StatusCode::CONFLICT, "the sandbox is paused already").into());
    }
    match memory.unwrap_or(true) {
        true => front.service.pause(caller, id).await?,
        false => front.service.pause_without_memory(caller, id).await?,
    };
    Ok(empty(StatusCode::NO_CONTENT))
}
