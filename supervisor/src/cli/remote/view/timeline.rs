//! What happened in a sandbox, or in a trace.

use rekindle_api::v1;
use serde::Serialize;

use super::{moment, seconds, word};

/// What happened in a sandbox.
#[derive(Debug, Serialize)]
pub struct Timeline {
    entries: Vec<Entry>,
    dropped: u64,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    steps: Vec<Step>,
}

/// What the calls of a step add up to.
#[derive(Debug, Serialize)]
struct Step {
    step: String,
    calls: u64,
    executions: u64,
    failures: u64,
    duration: Option<String>,
    cpu_time: Option<String>,
    bytes_in: u64,
    bytes_out: u64,
    connections: u64,
    connections_denied: u64,
    network_up: u64,
    network_down: u64,
    gateway_cost: u64,
}

/// One call.
#[derive(Debug, Serialize)]
struct Entry {
    #[serde(skip_serializing_if = "String::is_empty")]
    sandbox: String,
    call: String,
    #[serde(skip_serializing_if = "String::is_empty")]
    execution: String,
    subject: String,
    started_at: Option<String>,
    duration: Option<String>,
    outcome: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    cpu_time: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    memory_peak_bytes: Option<u64>,
    bytes_in: u64,
    bytes_out: u64,
    connections: u64,
    connections_denied: u64,
    network_up: u64,
    network_down: u64,
    gateway_cost: u64,
    #[serde(skip_serializing_if = "String::is_empty")]
    trace: String,
    #[serde(skip_serializing_if = "String::is_empty")]
    span: String,
    #[serde(skip_serializing_if = "String::is_empty")]
    step: String,
}

impl From<v1::SandboxTimelineResponse> for Timeline {
    fn from(from: v1::SandboxTimelineResponse) -> Self {
        Self {
            entries: from.entries.into_iter().map(Entry::from).collect(),
            dropped: from.dropped,
            steps: from.steps.into_iter().map(Step::from).collect(),
        }
    }
}

impl From<v1::TimelineStep> for Step {
    fn from(from: v1::TimelineStep) -> Self {
        Self {
            step: from.step,
            calls: from.calls,
            executions: from.executions,
            failures: from.failures,
            duration: seconds(from.duration),
            cpu_time: seconds(from.cpu_time),
            bytes_in: from.bytes_in,
            bytes_out: from.bytes_out,
            connections: from.connections,
            connections_denied: from.connections_denied,
            network_up: from.network_up,
            network_down: from.network_down,
            gateway_cost: from.gateway_cost,
        }
    }
}

impl From<v1::TimelineEntry> for Entry {
    fn from(from: v1::TimelineEntry) -> Self {
        Self {
            sandbox: from.sandbox,
            call: from.call,
            execution: from.execution,
            subject: from.subject,
            started_at: moment(from.started_at),
            duration: seconds(from.duration),
            outcome: word::outcome(from.outcome.as_ref()),
            cpu_time: seconds(from.cpu_time),
            memory_peak_bytes: from.memory_peak_bytes,
            bytes_in: from.bytes_in,
            bytes_out: from.bytes_out,
            connections: from.connections,
            connections_denied: from.connections_denied,
            network_up: from.network_up,
            network_down: from.network_down,
            gateway_cost: from.gateway_cost,
            trace: from.trace,
            span: from.span,
            step: from.step,
        }
    }
}
