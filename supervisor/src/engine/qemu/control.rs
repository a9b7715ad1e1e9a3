//! Turns a failed control command into the error that says what really happened.
//!
//! A monitor that cannot go on prints a line and exits, which first shows as a closed channel.

use std::time::Duration;

use tokio::time::timeout;

use super::qmp::QmpError;
use crate::engine::{EngineError, Operation};
use crate::host::process::Process;

/// How long a monitor whose channel closed may take to exit before it is taken for hung.
const EXIT_GRACE: Duration = Duration::from_secs(5);

/// How long one whose migration failed may take: a clone exits with a reason, a template goes on.
const FAILED_MIGRATION_GRACE: Duration = Duration::from_millis(500);

/// The error for `error`, after a look at whether the monitor has ended.
pub(super) async fn explain(process: &Process, operation: Operation, error: QmpError) -> EngineError {
    let grace = match error {
        QmpError::Closed { .. } | QmpError::Channel { .. } => EXIT_GRACE,
        QmpError::Migration { .. } => FAILED_MIGRATION_GRACE,
        QmpError::Refused { .. } | QmpError::Unexpected { .. } => Duration::ZERO,
    };
    if let Ok(report) = timeout(grace, process.wait()).await {
        return EngineError::Exited { operation, report, output: words(process) };
    }
    EngineError::Control { operation, source: Box::new(error) }
}

/// What the monitor printed, without what it says when all is well.
pub(super) fn words(process: &Process) -> String {
    let text = process.output().text();
    text.lines().filter(|line| !line.contains(": info: ")).collect::<Vec<_>>().join("\n")
}
