//! Facts about a host: templates, fill levels, sums.

use rekindle_api::v1;
use serde::Serialize;

use super::{moment, seconds};

/// A template.
#[derive(Debug, Serialize)]
pub struct Template {
    name: String,
    description: String,
    vcpus: u32,
    memory_bytes: u64,
    disk_bytes: u64,
    is_default: bool,
    packages: Vec<String>,
    root_allowed: bool,
}

/// How full a host is.
#[derive(Debug, Serialize)]
pub struct Status {
    version: String,
    engine: String,
    started_at: Option<String>,
    sandboxes: u32,
    memory_used_bytes: u64,
    memory_budget_bytes: u64,
    disk_used_bytes: u64,
    #[serde(skip_serializing_if = "Option::is_none")]
    disk_budget_bytes: Option<u64>,
    disk_free_bytes: u64,
    disk_low: bool,
    milli_cpus_used: u64,
    milli_cpus_budget: u64,
    queued: u32,
    pools: Vec<Pool>,
    unenforced_limits: Vec<String>,
    draining: bool,
}

/// How full the pool of one template is.
#[derive(Debug, Serialize)]
struct Pool {
    template: String,
    parked: u32,
    prespawned: u32,
    filling: u32,
    claims_parked: u64,
    claims_prespawned: u64,
    claims_restored: u64,
}

/// What a tenant has used.
#[derive(Debug, Serialize)]
pub struct TenantUsage {
    tenant: String,
    sandboxes: u64,
    executions: u64,
    running_time: Option<String>,
    cpu_time: Option<String>,
    memory_mib_seconds: u64,
    bytes_in: u64,
    bytes_out: u64,
    running: u64,
    connections: u64,
    network_requests: u64,
    network_bytes_up: u64,
    network_bytes_down: u64,
    gateway_cost: u64,
    gateway_cost_today: u64,
}

impl From<v1::Template> for Template {
    fn from(from: v1::Template) -> Self {
        Self {
            name: from.name,
            description: from.description,
            vcpus: from.vcpus,
            memory_bytes: from.memory_bytes,
            disk_bytes: from.disk_bytes,
            is_default: from.is_default,
            packages: from.packages,
            root_allowed: from.root_allowed,
        }
    }
}

impl From<v1::HostStatusResponse> for Status {
    fn from(from: v1::HostStatusResponse) -> Self {
        Self {
            version: from.version,
            engine: from.engine,
            started_at: moment(from.started_at),
            sandboxes: from.sandboxes,
            memory_used_bytes: from.memory_used_bytes,
            memory_budget_bytes: from.memory_budget_bytes,
            disk_used_bytes: from.disk_used_bytes,
            disk_budget_bytes: from.disk_budget_bytes,
            disk_free_bytes: from.disk_free_bytes,
            disk_low: from.disk_low,
            milli_cpus_used: from.milli_cpus_used,
            milli_cpus_budget: from.milli_cpus_budget,
            queued: from.queued,
            pools: from.pools.into_iter().map(Pool::from).collect(),
            unenforced_limits: from.unenforced_limits,
            draining: from.draining,
        }
    }
}

impl From<v1::PoolLevel> for Pool {
    fn from(from: v1::PoolLevel) -> Self {
        Self {
            template: from.template,
            parked: from.parked,
            prespawned: from.prespawned,
            filling: from.filling,
            claims_parked: from.claims_parked,
            claims_prespawned: from.claims_prespawned,
            claims_restored: from.claims_restored,
        }
    }
}

impl From<v1::TenantUsage> for TenantUsage {
    fn from(from: v1::TenantUsage) -> Self {
        Self {
            tenant: from.tenant,
            sandboxes: from.sandboxes,
            executions: from.executions,
            running_time: seconds(from.running_time),
            cpu_time: seconds(from.cpu_time),
            memory_mib_seconds: from.memory_mib_seconds,
            bytes_in: from.bytes_in,
            bytes_out: from.bytes_out,
            running: from.running,
            connections: from.connections,
            network_requests: from.network_requests,
            network_bytes_up: from.network_bytes_up,
            network_bytes_down: from.network_bytes_down,
            gateway_cost: from.gateway_cost,
            gateway_cost_today: from.gateway_cost_today,
        }
    }
}
