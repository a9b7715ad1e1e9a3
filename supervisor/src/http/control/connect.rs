//! Connects to a sandbox: one that is paused is resumed, one that runs is given more time, never less.

use std::time::SystemTime;

use axum::body::Body;
use axum::http::StatusCode;
use serde::Deserialize;

use super::{Answer, MAX_BODY, living, timeout, view};
use crate::http::body;
use crate::http::front::Front;
use crate::http::refusal::json_response;
use crate::service::{Caller, SandboxState};

#[derive(Deserialize)]
struct ConnectBody {
    timeout: Option<u64>,
    /// Whether what was in memory is kept.
    memory: Option<bool>,
}

pub(super) async fn answer(front: &Front, caller: &Caller, id: &str, body: Body) -> Answer {
    let ConnectBody { timeout, memory } = body::read(body, MAX_BODY).await?;
    let found = living(front, caller, id).await?;
    let ttl = timeout.map(|seconds| timeout::ttl(front, &found, seconds)).transpose()?;
    let paused = found.state == SandboxState::Paused;
    let longer = |ttl| found.expires_at.is_none_or(|end| SystemTime::now() + ttl > end);
    if let Some(ttl) = ttl.filter(|ttl| paused || longer(*ttl)) {
        // Before it runs again: its time may have been over.
        front.service.set_timeout(caller, id, Some(ttl), None, None)?;
    }
    if paused && memory == Some(false) {
        // It is booted from its files, also where more was kept.
        front.service.pause_without_memory(caller, id).await?;
    }
    let (status, found) = match paused {
        true => (StatusCode::CREATED, front.service.resume(caller, id).await?),
        false => (StatusCode::OK, found),
    };
    Ok(json_response(status, &view::entry(front, caller, &found)))
}
