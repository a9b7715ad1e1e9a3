//! Turns a failed request into the error that says what really happened.
//!
//! A monitor that ends, and a jailer that cannot start one, first show as a closed channel. One that goes on
//! is asked for its counters; what they and the log tell is part of the error.

use std::time::Duration;

use tokio::time::timeout;

use super::api::ApiError;
use super::api::models::{ActionType, InstanceActionInfo};
use super::start::Monitor;
use crate::engine::{EngineError, Operation};
use crate::host::process::{ExitReport, Process};

/// How long a monitor whose channel closed may take to exit before it is taken for hung.
const EXIT_GRACE: Duration = Duration::from_secs(5);

/// How long it may take to tell its counters.
const FLUSH_GRACE: Duration = Duration::from_secs(2);
/// How much of its log goes into an error.
const MAX_LOG: usize = 400;

/// A failed request with what else the monitor had to say.
#[derive(Debug, thiserror::Error)]
#[error("{error}{words}")]
struct Fault {
    error: ApiError,
    words: String,
}

/// The error for `error` of a monitor that runs, after a look at whether it has ended.
pub(super) async fn explain(monitor: &Monitor, operation: Operation, error: ApiError) -> EngineError {
    match ended(&monitor.process, &error).await {
        Some(report) => EngineError::Exited { operation, report, output: monitor.words() },
        None => {
            let flush = InstanceActionInfo { action_type: ActionType::FlushMetrics };
            // Before the guest runs it has none to tell.
            let _ = timeout(FLUSH_GRACE, monitor.api.put("/actions", &flush)).await;
            let mut words = String::new();
            if let Some(line) = last_new_line(&monitor.process.output().text(), &error) {
                words = format!("; its log ends with {line:?}");
            }
            let trouble = monitor.metrics.trouble();
            if !trouble.is_empty() {
                words.push_str(&format!("; it counted {trouble}"));
            }
            EngineError::Control { operation, source: Box::new(Fault { error, words }) }
        }
    }
}

/// The error for `error` of a process that is not a monitor yet.
pub(super) async fn explain_start(process: &Process, operation: Operation, error: ApiError) -> EngineError {
    match ended(process, &error).await {
        Some(report) => EngineError::Exited { operation, report, output: process.output().text() },
        None => EngineError::Control { operation, source: Box::new(error) },
    }
}

/// The last line of the log, unless it says the same as the error.
fn last_new_line(log: &str, error: &ApiError) -> Option<String> {
    let line = log.lines().next_back()?;
    let known = matches!(error, ApiError::Refused { message, .. } if line.contains(message.as_str()));
    (!known).then(|| line.chars().take(MAX_LOG).collect())
}

async fn ended(process: &Process, error: &ApiError) -> Option<ExitReport> {
    let grace = match error {
        ApiError::Connect { .. } | ApiError::Channel { .. } => EXIT_GRACE,
        // It goes on, or it ends right after having said why.
        ApiError::Refused { .. } => Duration::ZERO,
    };
    if grace.is_zero() {
        return process.try_exit();
    }
    timeout(grace, process.wait()).await.ok()
}
