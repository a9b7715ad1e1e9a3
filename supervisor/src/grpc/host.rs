//! The service `Host`: facts about the host that serves.

use std::time::Duration;

use rekindle_api::time::{duration, timestamp};
use rekindle_api::v1::{self, host_server::Host};
use tonic::{Request, Response, Status};

use super::call_record::CallRecord;
use crate::service::{Service, ServiceConfig};

/// What never changes about a host while it serves.
#[derive(Debug, Clone, Default)]
pub struct HostFacts {
    /// The engine, in one line.
    pub engine: String,
    /// Limits this host cannot enforce.
    pub unenforced: Vec<String>,
}

/// The service.
#[derive(Clone)]
pub(super) struct HostApi {
    pub service: Service,
    pub facts: HostFacts,
}

fn bytes(mib: u64) -> u64 {
    mib.saturating_mul(1 << 20)
}

fn rules(config: &ServiceConfig) -> v1::SandboxRules {
    v1::SandboxRules {
        ttl: Some(duration(config.ttl)),
        max_ttl: Some(duration(config.max_ttl)),
        idle_timeout: config.idle_timeout.map(duration),
        execute_timeout: Some(duration(config.execute_timeout)),
        max_execute_timeout: Some(duration(config.max_execute_timeout)),
        output_limit: config.output_limit,
        max_output_limit: config.max_output_limit,
        max_upload_bytes: config.max_upload_bytes,
        max_download_bytes: config.max_download_bytes,
    }
}

#[tonic::async_trait]
impl Host for HostApi {
    async fn list_templates(
        &self,
        request: Request<v1::ListTemplatesRequest>,
    ) -> Result<Response<v1::ListTemplatesResponse>, Status> {
        let (record, caller) = CallRecord::of(&request)?;
        let templates = self.service.templates().into_iter().map(|template| v1::Template {
            name: template.name.to_string(),
            description: template.description,
            vcpus: template.vcpus,
            memory_bytes: template.memory_mib << 20,
            disk_bytes: template.disk_mib << 20,
            is_default: template.is_default,
            packages: template.packages.to_vec(),
            root_allowed: template.root && caller.root,
        });
        let networks = self.service.policies(&caller).into_iter().map(|policy| v1::NetworkPolicy {
            name: policy.name().to_owned(),
            everything: policy.allows_everything(),
            rules: policy.listed(),
        });
        record.close(Ok(Response::new(v1::ListTemplatesResponse {
            templates: templates.collect(),
            networks: networks.collect(),
            rules: Some(rules(self.service.config())),
        })))
    }

    async fn status(
        &self,
        request: Request<v1::HostStatusRequest>,
    ) -> Result<Response<v1::HostStatusResponse>, Status> {
        let (record, caller) = CallRecord::of(&request)?;
        let status = record.close(self.service.status(&caller))?;
        let pools = status.pool.templates.iter().map(|level| v1::PoolLevel {
            template: level.name.to_string(),
            parked: level.parked,
            prespawned: level.prespawned,
            filling: level.filling,
            claims_parked: level.claims_parked,
            claims_prespawned: level.claims_prespawned,
            claims_restored: level.claims_restored,
        });
        Ok(Response::new(v1::HostStatusResponse {
            version: env!("CARGO_PKG_VERSION").to_owned(),
            engine: self.facts.engine.clone(),
            started_at: Some(timestamp(status.started_at)),
            sandboxes: u32::try_from(status.sandboxes).unwrap_or(u32::MAX),
            memory_used_bytes: status.pool.memory_mib.used << 20,
            memory_budget_bytes: status.pool.memory_mib.total << 20,
            milli_cpus_used: status.pool.milli_cpus.used,
            milli_cpus_budget: status.pool.milli_cpus.total,
            disk_used_bytes: bytes(status.pool.disk_mib.used),
            // The largest number stands for none.
            disk_budget_bytes: Some(status.pool.disk_mib.total).filter(|mib| *mib != u64::MAX).map(bytes),
            disk_free_bytes: bytes(status.pool.disk_free_mib),
            disk_low: status.pool.disk_low,
            queued: u32::try_from(status.pool.queued).unwrap_or(u32::MAX),
            pools: pools.collect(),
            unenforced_limits: self.facts.unenforced.clone(),
            draining: status.draining,
        }))
    }

    async fn usage(
        &self,
        request: Request<v1::HostUsageRequest>,
    ) -> Result<Response<v1::HostUsageResponse>, Status> {
        let (record, caller) = CallRecord::of(&request)?;
        let sums = record.close(self.service.usage(&caller, &request.into_inner().tenant))?;
        let tenants = sums.into_iter().map(|(tenant, (usage, running))| v1::TenantUsage {
            tenant,
            sandboxes: usage.sandboxes,
            executions: usage.executions,
            running_time: Some(duration(Duration::from_millis(usage.running_millis))),
            cpu_time: Some(duration(Duration::from_micros(usage.cpu_micros))),
            memory_mib_seconds: usage.memory_mib_seconds,
            bytes_in: usage.bytes_in,
            bytes_out: usage.bytes_out,
            running,
            connections: usage.connections,
            network_requests: usage.network_requests,
            network_bytes_up: usage.network_bytes_up,
            network_bytes_down: usage.network_bytes_down,
            gateway_cost: usage.gateway_cost,
            gateway_cost_today: usage.gateway_day_cost,
        });
        Ok(Response::new(v1::HostUsageResponse { tenants: tenants.collect() }))
    }
}
