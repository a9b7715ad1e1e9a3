//! The service itself: the sandboxes there are, whose they are, and how much each tenant holds.

use std::collections::{BTreeMap, HashMap, VecDeque};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::SystemTime;

use tokio::sync::watch;
use tokio::time::Instant;

use super::call_rate::CallRates;
use super::caller::{Caller, Quotas};
use super::config::ServiceConfig;
use super::error::ServiceError;
use super::events::Events;
use super::id::SandboxId;
use super::idempotency::{Fingerprint, Keys, Place, Settled};
use super::ledger::{Ledger, TenantUsage};
use super::sandbox::{End, Sandbox, SandboxView};
use super::timeline::{Timeline, TimelineEntry, TimelineOutcome};
use crate::network::Purse;
use crate::pool::Pool;
use crate::telemetry::{Direction, Metrics};

/// What a supervisor does for its callers. Clones are the same service.
#[derive(Debug, Clone)]
pub struct Service {
    inner: Arc<Inner>,
}

#[derive(Debug)]
struct Inner {
    config: ServiceConfig,
    pool: Pool,
    ledger: Ledger,
    metrics: Arc<Metrics>,
    events: Events,
    /// How often each tenant calls, whichever way it comes.
    call_rates: Arc<CallRates>,
    sandboxes: Mutex<Sandboxes>,
    /// What each tenant spends at the gateway.
    purses: Mutex<HashMap<String, Arc<Purse>>>,
    draining: watch::Sender<bool>,
    /// Calls under way, in all sandboxes.
    calls: watch::Sender<usize>,
    started_at: SystemTime,
}

/// What is left of a sandbox.
#[derive(Debug)]
pub(super) struct Gone {
    pub view: SandboxView,
    pub timeline: Timeline,
    since: Instant,
}

/// A sandbox that was looked up.
#[derive(Debug, Clone)]
pub(super) enum Found {
    Alive(Arc<Sandbox>),
    Gone(Arc<Gone>),
}

#[derive(Debug, Default)]
struct Sandboxes {
    alive: BTreeMap<SandboxId, Arc<Sandbox>>,
    /// Oldest end first.
    gone: VecDeque<Arc<Gone>>,
    held: HashMap<String, Held>,
    /// The request ids of tenants, with the sandboxes that were made for them.
    requests: HashMap<String, Keys<SandboxId>>,
}

/// What a tenant holds.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(super) struct Held {
    pub sandboxes: u64,
    pub milli_cpus: u64,
    pub memory_mib: u64,
    pub disk_mib: u64,
}

impl Service {
    /// A service that hands out the pool's machines.
    #[must_use]
    pub fn new(config: ServiceConfig, pool: Pool, ledger: Ledger, metrics: Arc<Metrics>) -> Self {
        let inner = Inner {
            call_rates: Arc::new(CallRates::new(config.call_rate)),
            config,
            pool,
            ledger,
            metrics,
            events: Events::new(),
            sandboxes: Mutex::default(),
            purses: Mutex::default(),
            draining: watch::channel(false).0,
            calls: watch::channel(0).0,
            started_at: SystemTime::now(),
        };
        Self { inner: Arc::new(inner) }
    }

    /// What the operator decided.
    #[must_use]
    pub fn config(&self) -> &ServiceConfig {
        &self.inner.config
    }

    /// Where machines come from.
    #[must_use]
    pub fn pool(&self) -> &Pool {
        &self.inner.pool
    }

    /// What is counted.
    #[must_use]
    pub fn metrics(&self) -> &Arc<Metrics> {
        &self.inner.metrics
    }

    /// How often tenants may call.
    pub(crate) fn call_rates(&self) -> &Arc<CallRates> {
        &self.inner.call_rates
    }

    pub(super) fn ledger(&self) -> &Ledger {
        &self.inner.ledger
    }

    pub(super) fn events(&self) -> &Events {
        &self.inner.events
    }

    pub(super) fn started_at(&self) -> SystemTime {
        self.inner.started_at
    }

    pub(super) fn draining(&self) -> &watch::Sender<bool> {
        &self.inner.draining
    }

    /// How many calls are under way.
    pub(super) fn calls(&self) -> &watch::Sender<usize> {
        &self.inner.calls
    }

    /// Counts a finished call.
    pub(super) fn observe(&self, entry: &TimelineEntry) {
        let metrics = self.metrics();
        if entry.execution.is_some() {
            // A call that failed has no outcome of its own: why is counted where calls are.
            let word = match entry.outcome {
                TimelineOutcome::Execution(_) | TimelineOutcome::Cancelled => entry.outcome.word(),
                _ => "failed",
            };
            metrics.execution(word, entry.took);
        }
        metrics.bytes(Direction::In, entry.bytes_in);
        metrics.bytes(Direction::Out, entry.bytes_out);
    }

    fn lock(&self) -> MutexGuard<'_, Sandboxes> {
        self.inner.sandboxes.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Enters a new sandbox.
    pub(super) fn enter(&self, sandbox: Arc<Sandbox>) {
        self.lock().alive.insert(sandbox.facts.id.clone(), sandbox);
    }

    /// Publishes how a sandbox ended and moves it to the records, of which the oldest are dropped. In one step:
    /// who knows of the end finds it nowhere else.
    pub(super) fn retire(&self, sandbox: &Sandbox, end: End) {
        let now = Instant::now();
        let mut sandboxes = self.lock();
        self.remember(sandbox, sandbox.take_destroys());
        sandbox.publish_end(end);
        let gone = Gone { view: sandbox.view(), timeline: sandbox.lock().timeline.clone(), since: now };
        sandboxes.alive.remove(&sandbox.facts.id);
        sandboxes.gone.push_back(Arc::new(gone));
        let config = self.config();
        while sandboxes.gone.front().is_some_and(|gone| now - gone.since > config.ended_kept_for)
            || sandboxes.gone.len() > config.ended_kept
        {
            sandboxes.gone.pop_front();
        }
    }

    /// A sandbox of the caller's. Another tenant's is as unknown as one that never was, except to who runs
    /// the host and only looks.
    pub(super) fn find(&self, caller: &Caller, id: &str, looks: bool) -> Result<Found, ServiceError> {
        let id: SandboxId = id.parse().map_err(|_| ServiceError::UnknownSandbox)?;
        let sandboxes = self.lock();
        let found = match sandboxes.alive.get(&id) {
            Some(sandbox) => Some(Found::Alive(sandbox.clone())),
            None => sandboxes.gone.iter().rev().find(|gone| gone.view.id == id).cloned().map(Found::Gone),
        };
        found.filter(|found| may_see(caller, found.tenant(), looks)).ok_or(ServiceError::UnknownSandbox)
    }

    /// A sandbox of the caller's own that has not ended.
    pub(super) fn alive(&self, caller: &Caller, id: &str) -> Result<Arc<Sandbox>, ServiceError> {
        match self.find(caller, id, false)? {
            Found::Alive(sandbox) => Ok(sandbox),
            Found::Gone(gone) => Err(gone.error()),
        }
    }

    /// Every sandbox the caller may look at.
    pub(super) fn all(&self, caller: &Caller, with_gone: bool) -> Vec<Found> {
        let sandboxes = self.lock();
        let gone = sandboxes.gone.iter().filter(|_| with_gone).cloned().map(Found::Gone);
        let alive = sandboxes.alive.values().cloned().map(Found::Alive);
        gone.chain(alive).filter(|found| may_see(caller, found.tenant(), true)).collect()
    }

    /// Every sandbox that has not ended, whoever's.
    pub(super) fn everyone(&self) -> Vec<Arc<Sandbox>> {
        self.lock().alive.values().cloned().collect()
    }

    /// One that has not ended, whoever's.
    pub(super) fn one(&self, id: &SandboxId) -> Option<Arc<Sandbox>> {
        self.lock().alive.get(id).cloned()
    }

    /// Where a Create with this request id stands.
    pub(super) fn place_request(
        &self,
        caller: &Caller,
        id: &str,
        fingerprint: &Fingerprint,
    ) -> Result<Place<SandboxId>, ServiceError> {
        self.lock().requests.entry(caller.tenant.clone()).or_default().place(id, fingerprint)
    }

    /// Remembers what came of a Create with a request id.
    pub(super) fn settle_request(&self, tenant: &str, settled: &Settled<'_, SandboxId>) {
        if let Some(keys) = self.lock().requests.get_mut(tenant) {
            keys.settle(settled);
        }
    }

    /// Sets aside a part of the tenant's quotas.
    pub(super) fn hold(&self, caller: &Caller, asked: Held) -> Result<QuotaHold, ServiceError> {
        self.set_aside(&caller.tenant, caller.quotas, asked)?;
        let (tenant, quotas) = (caller.tenant.clone(), caller.quotas);
        Ok(QuotaHold { service: self.clone(), tenant, quotas, held: asked })
    }

    fn set_aside(&self, tenant: &str, quotas: Quotas, asked: Held) -> Result<(), ServiceError> {
        let mut sandboxes = self.lock();
        let held = sandboxes.held.entry(tenant.to_owned()).or_default();
        let Quotas { sandboxes: most_sandboxes, milli_cpus, memory_mib, disk_mib, gateway: _ } = quotas;
        for (what, now, more, most) in [
            ("sandboxes", held.sandboxes, asked.sandboxes, most_sandboxes),
            ("thousandths of processors", held.milli_cpus, asked.milli_cpus, milli_cpus),
            ("MiB of memory", held.memory_mib, asked.memory_mib, memory_mib),
            ("MiB of disk", held.disk_mib, asked.disk_mib, disk_mib),
        ] {
            if let Some(most) = most.filter(|most| now.saturating_add(more) > *most) {
                return Err(ServiceError::Quota { what, most });
            }
        }
        held.sandboxes += asked.sandboxes;
        held.milli_cpus += asked.milli_cpus;
        held.memory_mib += asked.memory_mib;
        held.disk_mib += asked.disk_mib;
        Ok(())
    }

    fn give_back(&self, tenant: &str, given: Held) {
        let mut sandboxes = self.lock();
        if let Some(held) = sandboxes.held.get_mut(tenant) {
            held.sandboxes -= given.sandboxes;
            held.milli_cpus -= given.milli_cpus;
            held.memory_mib -= given.memory_mib;
            held.disk_mib -= given.disk_mib;
            // Tenants come and go; who holds nothing is not remembered.
            if *held == Held::default() {
                sandboxes.held.remove(tenant);
            }
        }
    }

    /// What a tenant spends at the gateway, with what the ledger knows of earlier supervisors.
    pub(super) fn purse(&self, tenant: &str) -> Arc<Purse> {
        let mut purses = self.purses();
        if let Some(purse) = purses.get(tenant) {
            return Arc::clone(purse);
        }
        let spent = self.ledger().sums().get(tenant).map(TenantUsage::gateway_day).unwrap_or_default();
        Arc::clone(purses.entry(tenant.to_owned()).or_insert_with(|| Arc::new(Purse::after(spent))))
    }

    /// What tenants have spent at the gateway on a day, those who have spent something.
    pub(super) fn spent_at_gateway(&self, day: u64) -> BTreeMap<String, u64> {
        let known =
            self.ledger().sums().into_iter().map(|(tenant, sums)| (tenant, sums.gateway_day().on(day)));
        let mut spent: BTreeMap<String, u64> = known.collect();
        // Sandboxes that run are not in the ledger yet.
        spent.extend(self.purses().iter().map(|(tenant, purse)| (tenant.clone(), purse.spent(day))));
        spent.retain(|_, spent| *spent > 0);
        spent
    }

    fn purses(&self) -> MutexGuard<'_, HashMap<String, Arc<Purse>>> {
        self.inner.purses.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Sandboxes that run now, by tenant.
    pub(super) fn running(&self) -> BTreeMap<String, u64> {
        let mut running = BTreeMap::new();
        for sandbox in self.lock().alive.values() {
            *running.entry(sandbox.facts.tenant.clone()).or_default() += 1;
        }
        running
    }
}

fn may_see(caller: &Caller, tenant: &str, looks: bool) -> bool {
    caller.tenant == tenant || (looks && caller.scopes.admin)
}

impl Found {
    fn tenant(&self) -> &str {
        match self {
            Self::Alive(sandbox) => &sandbox.facts.tenant,
            Self::Gone(gone) => &gone.view.tenant,
        }
    }

    /// The sandbox as its tenant sees it, up to date.
    pub(super) async fn view(&self) -> SandboxView {
        match self {
            Self::Alive(sandbox) => {
                sandbox.refresh().await;
                sandbox.view()
            }
            Self::Gone(gone) => gone.view.clone(),
        }
    }
}

impl Gone {
    /// The error of a call that comes too late.
    pub(super) fn error(&self) -> ServiceError {
        match self.view.end.clone() {
            Some(end) => ServiceError::Ended { end, during: false },
            None => ServiceError::UnknownSandbox,
        }
    }
}

/// A part of a tenant's quotas, given back when dropped.
#[derive(Debug)]
pub(super) struct QuotaHold {
    service: Service,
    tenant: String,
    /// What its tenant may have.
    quotas: Quotas,
    held: Held,
}

impl QuotaHold {
    /// Gives everything back but the place and the disk; what that was.
    pub(super) fn keep_disk_alone(&mut self) -> Held {
        let given = Held { sandboxes: 0, disk_mib: 0, ..self.held };
        self.held = Held { milli_cpus: 0, memory_mib: 0, ..self.held };
        self.service.give_back(&self.tenant, given);
        given
    }

    /// Sets it aside once more; it is a hold of its own until they are [joined](Self::join).
    pub(super) fn again(&self, asked: Held) -> Result<Self, ServiceError> {
        self.service.set_aside(&self.tenant, self.quotas, asked)?;
        let (service, tenant) = (self.service.clone(), self.tenant.clone());
        Ok(Self { service, tenant, quotas: self.quotas, held: asked })
    }

    /// Both become one.
    pub(super) fn join(&mut self, mut other: Self) {
        let more = std::mem::take(&mut other.held);
        self.held.sandboxes += more.sandboxes;
        self.held.milli_cpus += more.milli_cpus;
        self.held.memory_mib += more.memory_mib;
        self.held.disk_mib += more.disk_mib;
    }
}

impl Drop for QuotaHold {
    fn drop(&mut self) {
        self.service.give_back(&self.tenant, self.held);
    }
}
