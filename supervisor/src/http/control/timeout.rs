//! Changes how long a sandbox still has.

use std::time::Duration;

use axum::body::Body;
use axum::http::StatusCode;
use serde::Deserialize;

use super::{Answer, MAX_BODY, empty, living};
use crate::http::body;
use crate::http::front::Front;
use crate::service::{Caller, SandboxView, ServiceError};

#[derive(Deserialize)]
struct TimeoutBody {
    timeout: u64,
}

pub(super) async fn answer(front: &Front, caller: &Caller, id: &str, body: Body) -> Answer {
    let TimeoutBody { timeout } = body::read(body, MAX_BODY).await?;
    let found = living(front, caller, id).await?;
    let ttl = ttl(front, &found, timeout)?;
    front.service.set_timeout(caller, id, Some(ttl), None, None)?;
    Ok(empty(StatusCode::NO_CONTENT))
}

/// The time to live of a sandbox that gets so many seconds from now on. Beyond the longest life of a sandbox it gets
/// what is left of that; nothing at all means now.
pub(super) fn ttl(front: &Front, found: &SandboxView, seconds: u64) -> Result<Duration, ServiceError> {
    let (asked, most) = (Duration::from_secs(seconds), front.service.config().max_ttl);
    if asked > most {
        return Err(ServiceError::TimeLimit { what: "timeout", asked, most });
    }
    // A little less than is left: it runs on while this is decided.
    let left = most.saturating_sub(found.usage.running).saturating_sub(Duration::from_secs(1));
    Ok(asked.min(left).max(Duration::from_millis(1)))
}
