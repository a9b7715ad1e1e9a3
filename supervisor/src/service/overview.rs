//! Facts about the host: its templates, how full it is, what tenants have used.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::SystemTime;

use super::caller::{Caller, Scope};
use super::error::ServiceError;
use super::ledger::TenantUsage;
use super::registry::Service;
use super::sandbox::SandboxState;
use crate::config::TemplateName;
use crate::network::Policy;
use crate::network::gateway::today;
use crate::pool::PoolStatus;
use crate::telemetry::{Gauges, TemplateLevels};

/// What sandboxes can be made from.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TemplateView {
    /// Its name.
    pub name: TemplateName,
    /// One line about it.
    pub description: String,
    /// Virtual processors.
    pub vcpus: u32,
    /// Memory in MiB.
    pub memory_mib: u64,
    /// Scratch disk in MiB.
    pub disk_mib: u64,
    /// It is what `Create` uses when none is named.
    pub is_default: bool,
    /// What is installed in its image, as `name version`.
    pub packages: Arc<[String]>,
    /// Whether callers may be root in its sandboxes, unless their token forbids it.
    pub root: bool,
}

/// How full a host is.
#[derive(Debug, Clone)]
pub struct HostStatus {
    /// When the supervisor started.
    pub started_at: SystemTime,
    /// Sandboxes that have not ended.
    pub sandboxes: usize,
    /// The pool.
    pub pool: PoolStatus,
    /// The supervisor is shutting down.
    pub draining: bool,
}

impl Service {
    /// The network policies that a caller may choose, by name.
    #[must_use]
    pub fn policies(&self, caller: &Caller) -> Vec<Arc<Policy>> {
        let allowed = |policy: &&Arc<Policy>| caller.networks.allow(policy.name());
        self.config().network.policies().filter(allowed).cloned().collect()
    }

    /// The templates, by name.
    #[must_use]
    pub fn templates(&self) -> Vec<TemplateView> {
        let view = |template: &Arc<crate::pool::PooledTemplate>| {
            let recipe = &template.source.recipe;
            TemplateView {
                name: recipe.name.clone(),
                description: recipe.description.clone(),
                vcpus: recipe.vcpus,
                memory_mib: recipe.memory_mib.into(),
                disk_mib: recipe.scratch_mib,
                is_default: recipe.name == self.config().default_template,
                packages: Arc::clone(&template.source.image.packages),
                root: recipe.root,
            }
        };
        let mut templates: Vec<_> = self.pool().templates().iter().map(view).collect();
        templates.sort_by(|a, b| a.name.cmp(&b.name));
        templates
    }

    /// How full the host is.
    ///
    /// # Errors
    /// When the caller may not know.
    pub fn status(&self, caller: &Caller) -> Result<HostStatus, ServiceError> {
        caller.require(Scope::Admin)?;
        Ok(self.overview())
    }

    /// How full the host is, for this process's own use.
    #[must_use]
    pub fn overview(&self) -> HostStatus {
        HostStatus {
            started_at: self.started_at(),
            sandboxes: self.everyone().len(),
            pool: self.pool().status(),
            draining: *self.draining().borrow(),
        }
    }

    /// How things stand now, for the metrics.
    pub async fn gauges(&self) -> Gauges {
        let pool = self.pool().status();
        let mut gauges = Gauges {
            templates: pool
                .templates
                .iter()
                .map(|level| TemplateLevels {
                    template: level.name.to_string(),
                    parked: level.parked.into(),
                    prespawned: level.prespawned.into(),
                    filling: level.filling.into(),
                })
                .collect(),
            queued: pool.queued as u64,
            restores_repeated: self.pool().restores_repeated(),
            ..Gauges::default()
        };
        for sandbox in self.everyone() {
            match sandbox.lock().state {
                SandboxState::Paused => gauges.paused += 1,
                SandboxState::Running | SandboxState::Ending | SandboxState::Ended => gauges.running += 1,
            }
            sandbox.refresh().await;
            let usage = sandbox.lock().usage.machine;
            // Exact up to years of processor time.
            gauges.cpu_seconds += usage.cpu_usec.unwrap_or(0) as f64 / 1e6;
            gauges.memory_bytes = gauges.memory_bytes.saturating_add(usage.memory_bytes.unwrap_or(0));
        }
        gauges
    }

    /// What tenants have used, with the number of sandboxes that run now. What was spent at the gateway today is told as
    /// of now, theirs that run included.
    ///
    /// # Errors
    /// When the caller may not know another tenant's sums.
    pub fn usage(
        &self,
        caller: &Caller,
        tenant: &str,
    ) -> Result<BTreeMap<String, (TenantUsage, u64)>, ServiceError> {
        let wanted = match tenant {
            "" if caller.scopes.admin => None,
            "" => Some(caller.tenant.as_str()),
            other if other == caller.tenant => Some(other),
            other => {
                caller.require(Scope::Admin)?;
                Some(other)
            }
        };
        let running = self.running();
        let mut sums = self.ledger().sums();
        // A tenant whose first sandbox still runs has a row too.
        for tenant in running.keys() {
            sums.entry(tenant.clone()).or_default();
        }
        let wanted = |name: &String| wanted.is_none_or(|wanted| wanted == name);
        let (day, spent) = (today(), self.spent_at_gateway(today()));
        let with_running = |(name, mut usage): (String, TenantUsage)| {
            let now = running.get(&name).copied().unwrap_or(0);
            (usage.gateway_day, usage.gateway_day_cost) = (day, spent.get(&name).copied().unwrap_or(0));
            (name, (usage, now))
        };
        Ok(sums.into_iter().filter(|(name, _)| wanted(name)).map(with_running).collect())
    }
}
