//! An execution that has ended, as `--json` prints it.

use rekindle_api::v1;
use serde::Serialize;

use super::End;
use crate::cli::remote::view::{Denial, seconds};

/// How an execution ended, what it printed and what it took.
#[derive(Debug, Serialize)]
pub struct Execution {
    /// Its name; a run has but one.
    #[serde(skip_serializing_if = "String::is_empty")]
    execution: String,
    outcome: End,
    stdout: Output,
    stderr: Output,
    usage: Usage,
    #[serde(skip_serializing_if = "Option::is_none")]
    diagnosis: Option<Diagnosis>,
    warm_interpreter: bool,
    replayed: bool,
    #[serde(skip_serializing_if = "Option::is_none")]
    turns_left: Option<u32>,
    #[serde(skip_serializing_if = "String::is_empty")]
    warning: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    network: Option<Network>,
}

/// What it did on the network.
#[derive(Debug, Serialize)]
struct Network {
    connections: u64,
    denied: u64,
    failed: u64,
    bytes_up: u64,
    bytes_down: u64,
    denials: Vec<Denial>,
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
    wall_time: Option<String>,
    cpu_time: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    memory_peak_bytes: Option<u64>,
}

/// What kind of failure it looks like.
#[derive(Debug, Serialize)]
pub struct Diagnosis {
    kind: String,
    subject: String,
    #[serde(skip_serializing_if = "String::is_empty")]
    hint: String,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    near: Vec<String>,
}

impl From<v1::Diagnosis> for Diagnosis {
    fn from(from: v1::Diagnosis) -> Self {
        let v1::Diagnosis { kind, subject, hint, near } = from;
        Self { kind, subject, hint, near }
    }
}

impl Execution {
    /// The answer, and what it means.
    pub fn new(from: v1::ExecuteResponse, outcome: End) -> Self {
        let usage = from.usage.unwrap_or_default();
        Self {
            execution: from.execution,
            outcome,
            stdout: from.stdout.unwrap_or_default().into(),
            stderr: from.stderr.unwrap_or_default().into(),
            usage: Usage {
                wall_time: seconds(usage.wall_time),
                cpu_time: seconds(usage.cpu_time),
                memory_peak_bytes: usage.memory_peak_bytes,
            },
            diagnosis: from.diagnosis.map(Into::into),
            warm_interpreter: from.warm_interpreter,
            replayed: from.replayed,
            turns_left: from.turns_left,
            warning: from.warning,
            network: from.network.map(|from| Network {
                connections: from.connections,
                denied: from.denied,
                failed: from.failed,
                bytes_up: from.bytes_up,
                bytes_down: from.bytes_down,
                denials: from.denials.into_iter().map(Denial::from).collect(),
            }),
        }
    }
}

impl From<v1::Output> for Output {
    fn from(from: v1::Output) -> Self {
        let path = String::from_utf8_lossy(&from.spilled_path).into_owned();
        Self {
            text: from.text,
            truncated: from.truncated,
            total_bytes: from.total_bytes,
            total_chars: from.total_chars,
            spilled_path: Some(path).filter(|path| !path.is_empty()),
            spilled_bytes: from.spilled_bytes,
        }
    }
}
