//! An execution that has ended.

use rekindle_api::v1;
use serde::Serialize;

use crate::cli::remote::exec::End;

/// How an execution ended, what it printed and what it took.
#[derive(Debug, Serialize)]
pub struct Execution {
    execution: String,
    outcome: End,
    stdout: Output,
    stderr: Output,
    usage: Usage,
    #[serde(skip_serializing_if = "Option::is_none")]
    diagnosis: Option<Diagnosis>,
    warm_interpreter: bool,
    replayed: bool,
}

/// What was collected of one stream.
#[derive(Debug, Serialize)]
struct Output {
    text: String,
    truncated: bool,
    total_bytes: u64,
    total_chars: u64,
    #[serde(skip_serializing_if = "Option::is_none")]
    spilled_path: Option<String>,
    spilled_bytes: u64,
}

/// What it took.
#[derive(Debug, Serialize)]
struct Usage {
    wall_micros: u64,
    cpu_micros: u64,
    peak_memory_bytes: u64,
}

/// What kind of failure it looks like.
#[derive(Debug, Serialize)]
struct Diagnosis {
    kind: String,
    subject: String,
}

impl Execution {
    /// The answer of a server, and what it means.
    pub fn new(from: v1::ExecuteResponse, outcome: End) -> Self {
        let usage = from.usage.unwrap_or_default();
        Self {
            execution: from.execution,
            outcome,
            stdout: from.stdout.unwrap_or_default().into(),
            stderr: from.stderr.unwrap_or_default().into(),
            usage: Usage {
                wall_micros: usage.wall_micros,
                cpu_micros: usage.cpu_micros,
                peak_memory_bytes: usage.peak_memory_bytes,
            },
            diagnosis: from.diagnosis.map(|from| Diagnosis { kind: from.kind, subject: from.subject }),
            warm_interpreter: from.warm_interpreter,
            replayed: from.replayed,
        }
    }
}

impl From<v1::Output> for Output {
    fn from(from: v1::Output) -> Self {
        let kept = String::from_utf8_lossy(&from.spilled_path).into_owned();
        Self {
            text: from.text,
            truncated: from.truncated,
            total_bytes: from.total_bytes,
            total_chars: from.total_chars,
            spilled_path: Some(kept).filter(|path| !path.is_empty()),
            spilled_bytes: from.spilled_bytes,
        }
    }
}
