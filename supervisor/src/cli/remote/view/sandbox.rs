//! A sandbox, and what happens to it.

use std::collections::BTreeMap;

use rekindle_api::v1;
use serde::Serialize;

use super::word;

/// A sandbox.
#[derive(Debug, Serialize)]
pub struct Sandbox {
    id: String,
    template: String,
    tenant: String,
    state: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    end: Option<End>,
    created_at_millis: u64,
    #[serde(skip_serializing_if = "is_zero")]
    expires_at_millis: u64,
    #[serde(skip_serializing_if = "is_zero")]
    idle_timeout_millis: u64,
    metadata: BTreeMap<String, String>,
    limits: Limits,
    usage: Usage,
    #[serde(skip_serializing_if = "Option::is_none")]
    start: Option<Start>,
}

/// How it ended.
#[derive(Debug, Serialize)]
struct End {
    reason: String,
    message: String,
    at_millis: u64,
}

/// What it may use.
#[derive(Debug, Serialize)]
struct Limits {
    cpu_millis: u32,
    memory_bytes: u64,
    pids: u32,
}

/// What it has used.
#[derive(Debug, Serialize)]
struct Usage {
    executions: u64,
    cpu_micros: u64,
    memory_bytes: u64,
    memory_peak_bytes: u64,
    bytes_in: u64,
    bytes_out: u64,
    running_millis: u64,
}

/// How it was started.
#[derive(Debug, Serialize)]
struct Start {
    kind: String,
    queued_micros: u64,
    stages: Vec<Stage>,
    total_micros: u64,
}

/// One step of its start.
#[derive(Debug, Serialize)]
struct Stage {
    name: String,
    micros: u64,
}

/// Something happened to it.
#[derive(Debug, Serialize)]
pub struct Event {
    kind: String,
    at_millis: u64,
    sandbox: Option<Sandbox>,
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde calls it so")]
fn is_zero(number: &u64) -> bool {
    *number == 0
}

impl From<&v1::Sandbox> for Sandbox {
    fn from(from: &v1::Sandbox) -> Self {
        let limits = from.limits.unwrap_or_default();
        let usage = from.usage.unwrap_or_default();
        let end = from.end.as_ref().map(|end| End {
            reason: word::end_reason(end.reason),
            message: end.message.clone(),
            at_millis: end.at_millis,
        });
        let stage = |stage: &v1::Stage| Stage { name: stage.name.clone(), micros: stage.micros };
        let start = from.start.as_ref().map(|start| Start {
            kind: word::start(start.kind),
            queued_micros: start.queued_micros,
            stages: start.stages.iter().map(stage).collect(),
            total_micros: start.total_micros,
        });
        Self {
            id: from.id.clone(),
            template: from.template.clone(),
            tenant: from.tenant.clone(),
            state: word::state(from.state),
            end,
            created_at_millis: from.created_at_millis,
            expires_at_millis: from.expires_at_millis,
            idle_timeout_millis: from.idle_timeout_millis,
            metadata: from.metadata.clone().into_iter().collect(),
            limits: Limits {
                cpu_millis: limits.cpu_millis,
                memory_bytes: limits.memory_bytes,
                pids: limits.pids,
            },
            usage: Usage {
                executions: usage.executions,
                cpu_micros: usage.cpu_micros,
                memory_bytes: usage.memory_bytes,
                memory_peak_bytes: usage.memory_peak_bytes,
                bytes_in: usage.bytes_in,
                bytes_out: usage.bytes_out,
                running_millis: usage.running_millis,
            },
            start,
        }
    }
}

impl From<&v1::Event> for Event {
    fn from(from: &v1::Event) -> Self {
        Self {
            kind: word::event(from.kind),
            at_millis: from.at_millis,
            sandbox: from.sandbox.as_ref().map(Sandbox::from),
        }
    }
}
