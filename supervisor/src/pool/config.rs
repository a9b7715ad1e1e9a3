//! What a pool is told at its start.

use std::sync::Arc;
use std::time::Duration;

use super::demand::Demand;
use super::template::Room;
use crate::config::TemplateName;
use crate::store::Snapshot;
use crate::tuning::{self, Mechanism};
use crate::vm::TemplateSource;

/// Long enough for a first program on a host of one or two processors.
const HEAD_START: Duration = Duration::from_millis(200);

/// A template machines are handed out of.
#[derive(Debug)]
pub struct PooledTemplate {
    /// What it is made of.
    pub source: TemplateSource,
    /// Its snapshot, held against removal.
    pub snapshot: Arc<Snapshot>,
    /// Machines that are restored, primed and wait for a caller.
    pub parked: Watermarks,
    /// Monitors that wait for the snapshot to be loaded.
    pub prespawned: u32,
}

impl PooledTemplate {
    /// Its name.
    #[must_use]
    pub fn name(&self) -> &TemplateName {
        &self.source.recipe.name
    }
}

/// How many to keep: fewer than `low` are filled up to `high`. A `low` of 0 keeps none.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Watermarks {
    /// Below this it is filled up.
    pub low: u32,
    /// Filled up to this. Less than `low` means `low`.
    pub high: u32,
}

/// What machines may use together, and how the pool goes about it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PoolConfig {
    /// Memory of all machines together in MiB, parked ones and the monitors' own included.
    pub memory_budget_mib: u64,
    /// Scratch disks of all machines together in MiB, at their full size.
    pub disk_budget_mib: u64,
    /// What must stay free on the file system they are on, in MiB, or nothing new is begun.
    pub disk_reserve_mib: u64,
    /// Processors of all claimed machines together, in thousandths.
    pub milli_cpus_budget: u64,
    /// Hand out so many hundredths of the memory: clones share what they do not write to.
    pub memory_overcommit_percent: u32,
    /// Hand out so many hundredths of the processors: most machines idle most of the time.
    pub cpu_overcommit_percent: u32,
    /// Hand out so many hundredths of the disk: most machines write little. Above 100, a write may fail.
    pub disk_overcommit_percent: u32,
    /// Claims of all tenants that may wait for room; the operator's own are as many again.
    pub max_queued: usize,
    /// Claims of one tenant that may.
    pub max_queued_per_tenant: usize,
    /// Machines that are made ahead at once.
    pub fill_parallel: usize,
    /// How long a machine that was claimed has the host for itself before its successor is made, where claims come
    /// one at a time and another machine waits for the next.
    pub head_start: Duration,
    /// How long a template rests after its first failed refill; doubled for every further one in a row.
    pub first_backoff: Duration,
    /// The longest rest.
    pub longest_backoff: Duration,
    /// How long a parked machine may take to become its caller's before a fresh one takes its place.
    pub renew_deadline: Duration,
    /// What a caller without a place is told to wait before it tries again, times the callers before it.
    pub retry_after: Duration,
}

impl PoolConfig {
    /// A pool with this much to hand out, disk without bound, and defaults for the rest.
    #[must_use]
    pub fn new(memory_budget_mib: u64, milli_cpus_budget: u64) -> Self {
        Self {
            memory_budget_mib,
            disk_budget_mib: u64::MAX,
            disk_reserve_mib: 0,
            milli_cpus_budget,
            memory_overcommit_percent: 100,
            cpu_overcommit_percent: 100,
            disk_overcommit_percent: 100,
            max_queued: 256,
            max_queued_per_tenant: 64,
            fill_parallel: 2,
            head_start: if tuning::on(Mechanism::HeadStart) { HEAD_START } else { Duration::ZERO },
            first_backoff: Duration::from_secs(1),
            longest_backoff: Duration::from_secs(60),
            renew_deadline: Duration::from_secs(10),
            retry_after: Duration::from_millis(500),
        }
    }

    /// What is handed out, overcommitment included.
    pub(super) fn total(&self) -> Demand {
        let share = |budget: u64, percent: u32| budget.saturating_mul(u64::from(percent)) / 100;
        let disk_mib = match self.disk_budget_mib {
            u64::MAX => u64::MAX,
            budget => share(budget, self.disk_overcommit_percent),
        };
        Demand {
            room: Room {
                memory_mib: share(self.memory_budget_mib, self.memory_overcommit_percent),
                disk_mib,
            },
            milli_cpus: share(self.milli_cpus_budget, self.cpu_overcommit_percent),
        }
    }
}
