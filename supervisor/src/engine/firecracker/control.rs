//! Turns a failed request into the error that says what really happened.
//!
//! A monitor that ends, and a jailer that cannot start one, first show as a closed channel.

use std::time::Duration;

use tokio::time::timeout;

use super::api::ApiError;
use crate::engine::{EngineError, Operation};
use crate::host::process::Process;

/// How long a monitor whose channel closed may take to exit before it is taken for hung.
const EXIT_GRACE: Duration = Duration::from_secs(5);

/// The error for `error`, after a look at whether the monitor has ended.
pub(super) async fn explain(process: &Process, operation: Operation, error: ApiError) -> EngineError {
    let grace = match error {
        ApiError::Connect { .. } | ApiError::Channel { .. } => EXIT_GRACE,
        // It goes on, or it ends right after having said why.
        ApiError::Refused { .. } => Duration::ZERO,
    };
    if !grace.is_zero()
        && let Ok(report) = timeout(grace, process.wait()).await
    {
        return EngineError::Exited { operation, report, output: process.output().text() };
    }
    EngineError::Control { operation, source: Box::new(error) }
}
