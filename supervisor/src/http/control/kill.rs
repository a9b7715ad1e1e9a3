//! Ends a sandbox.

use axum::http::StatusCode;

use super::{Answer, empty, living};
use crate::http::front::Front;
use crate::service::Caller;

pub(super) async fn answer(front: &Front, caller: &Caller, id: &str) -> Answer {
    // One that has ended is not there: clients ask whether they ended it.
    living(front, caller, id).await?;
    front.service.destroy(caller, id).await?;
    Ok(empty(StatusCode::NO_CONTENT))
}
