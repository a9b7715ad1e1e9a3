//! A sandbox, and what happens to it.

use std::collections::BTreeMap;

use rekindle_api::v1;
use serde::Serialize;

use super::{moment, seconds, word};

/// A sandbox.
#[derive(Debug, Serialize)]
pub struct Sandbox {
    id: String,
    template: String,
    tenant: String,
    network: String,
    gateway: Vec<String>,
    gateway_budget: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    turns: Option<Turns>,
    #[serde(skip_serializing_if = "Option::is_none")]
    result: Option<ResultFile>,
    state: String,
    without_memory: bool,
    #[serde(skip_serializing_if = "Option::is_none")]
    end: Option<End>,
    created_at: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    expires_at: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    idle_timeout: Option<String>,
    on_timeout: String,
    metadata: BTreeMap<String, String>,
    limits: Limits,
    usage: Usage,
    #[serde(skip_serializing_if = "Option::is_none")]
    start: Option<Start>,
}

/// How many executions may be started in it.
#[derive(Debug, Serialize)]
struct Turns {
    max: u32,
    left: u32,
}

/// Its result, and whether it is there.
#[derive(Debug, Serialize)]
struct ResultFile {
    path: String,
    exists: Option<bool>,
}

/// How it ended.
#[derive(Debug, Serialize)]
struct End {
    reason: String,
    message: String,
    ended_at: Option<String>,
}

/// What it may use.
#[derive(Debug, Serialize)]
struct Limits {
    milli_cpus: u32,
    memory_bytes: u64,
    pids: u32,
}

/// What it has used.
#[derive(Debug, Serialize)]
struct Usage {
    executions: u64,
    #[serde(skip_serializing_if = "Option::is_none")]
    cpu_time: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    memory_bytes: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    memory_peak_bytes: Option<u64>,
    bytes_in: u64,
    bytes_out: u64,
    running_time: Option<String>,
    connections: u64,
    connections_denied: u64,
    network_requests: u64,
    network_bytes_up: u64,
    network_bytes_down: u64,
    gateway_requests: u64,
    gateway_cost: u64,
}

/// How it was started.
#[derive(Debug, Serialize)]
struct Start {
    kind: String,
    queued: Option<String>,
    stages: Vec<Stage>,
    total: Option<String>,
}

/// One step of its start.
#[derive(Debug, Serialize)]
struct Stage {
    name: String,
    duration: Option<String>,
}

/// Something happened to it.
#[derive(Debug, Serialize)]
pub struct Event {
    kind: String,
    at: Option<String>,
    sandbox: Option<Sandbox>,
}

impl From<&v1::Sandbox> for Sandbox {
    fn from(from: &v1::Sandbox) -> Self {
        let limits = from.limits.unwrap_or_default();
        let usage = from.usage.unwrap_or_default();
        let end = from.end.as_ref().map(|end| End {
            reason: word::end_reason(end.reason),
            message: end.message.clone(),
            ended_at: moment(end.ended_at),
        });
        let stage = |stage: &v1::SandboxStartStage| Stage {
            name: stage.name.clone(),
            duration: seconds(stage.duration),
        };
        let start = from.start.as_ref().map(|start| Start {
            kind: word::start(start.kind),
            queued: seconds(start.queued),
            stages: start.stages.iter().map(stage).collect(),
            total: seconds(start.total),
        });
        Self {
            id: from.id.clone(),
            template: from.template.clone(),
            tenant: from.tenant.clone(),
            network: from.network.clone(),
            gateway: from.gateway.clone(),
            gateway_budget: from.gateway_budget,
            turns: from.turns.map(|turns| Turns { max: turns.max, left: turns.left }),
            result: from
                .result
                .as_ref()
                .map(|result| ResultFile { path: result.path.clone(), exists: result.exists }),
            state: word::state(from.state),
            without_memory: from.without_memory,
            end,
            created_at: moment(from.created_at),
            expires_at: moment(from.expires_at),
            idle_timeout: seconds(from.idle_timeout),
            on_timeout: word::on_timeout(from.on_timeout),
            metadata: from.metadata.clone(),
            limits: Limits {
                milli_cpus: limits.milli_cpus,
                memory_bytes: limits.memory_bytes,
                pids: limits.pids,
            },
            usage: Usage {
                executions: usage.executions,
                cpu_time: seconds(usage.cpu_time),
                memory_bytes: usage.memory_bytes,
                memory_peak_bytes: usage.memory_peak_bytes,
                bytes_in: usage.bytes_in,
                bytes_out: usage.bytes_out,
                running_time: seconds(usage.running_time),
                connections: usage.connections,
                connections_denied: usage.connections_denied,
                network_requests: usage.network_requests,
                network_bytes_up: usage.network_bytes_up,
                network_bytes_down: usage.network_bytes_down,
                gateway_requests: usage.gateway_requests,
                gateway_cost: usage.gateway_cost,
            },
            start,
        }
    }
}

impl From<&v1::SandboxEvent> for Event {
    fn from(from: &v1::SandboxEvent) -> Self {
        Self {
            kind: word::event(from.kind),
            at: moment(from.at),
            sandbox: from.sandbox.as_ref().map(Sandbox::from),
        }
    }
}
