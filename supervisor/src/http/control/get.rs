//! Looks at a sandbox.

use axum::http::StatusCode;

use super::{Answer, living, view};
use crate::http::front::Front;
use crate::http::refusal::json_response;
use crate::service::Caller;

pub(super) async fn answer(front: &Front, caller: &Caller, id: &str) -> Answer {
    let found = living(front, caller, id).await?;
    Ok(json_response(StatusCode::OK, &view::detail(front, caller, &found)))
}
