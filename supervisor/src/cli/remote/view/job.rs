//! A detached execution.

use rekindle_api::v1;
use serde::Serialize;

use super::{moment, seconds, word};

/// A detached execution.
#[derive(Debug, Serialize)]
pub struct Job {
    execution: String,
    pid: u32,
    subject: String,
    started_at: Option<String>,
    duration: Option<String>,
    state: String,
    stdout_bytes: u64,
    stderr_bytes: u64,
    takes_input: bool,
    terminal: bool,
}

impl From<v1::DetachedExecution> for Job {
    fn from(from: v1::DetachedExecution) -> Self {
        Self {
            state: word::job_state(from.state.as_ref()),
            execution: from.execution,
            pid: from.pid,
            subject: from.subject,
            started_at: moment(from.started_at),
            duration: seconds(from.duration),
            stdout_bytes: from.stdout_bytes,
            stderr_bytes: from.stderr_bytes,
            takes_input: from.takes_input,
            terminal: from.terminal,
        }
    }
}
