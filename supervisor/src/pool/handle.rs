//! The pool as its callers see it: claim, look, drain.
//!
//! A claim is admitted by the actor and started here, in the caller's own task, so that dropping it gives up
//! the place in the queue or the half-made machine.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use tokio::sync::{mpsc, oneshot, watch};
use tokio::time::timeout;

use super::actor::{Actor, Request};
use super::config::{PoolConfig, PooledTemplate};
use super::demand::Wanted;
use super::error::ClaimError;
use super::lease::{Booted, Grant, Lease, Ready, StartKind};
use super::status::PoolStatus;
use super::template::TemplateId;
use crate::config::TemplateName;
use crate::engine::{Stopwatch, Timings};
use crate::host::cgroup::CpuQuota;
use crate::host::disk::Reserve;
use crate::vm::{Identity, KeptDisk, Plan, Prespawned, StartError, Vm, VmHost, restore_clone};

/// What a caller wants.
#[derive(Debug, Clone)]
pub struct ClaimRequest {
    /// The template.
    pub template: TemplateName,
    /// Whose turn it is taken from; `None` for who runs the host, who waits behind no tenant.
    pub tenant: Option<String>,
    /// A share of the host's processors; `None` gives one per virtual one.
    pub cpu: Option<CpuQuota>,
    /// Who the machine is to be.
    pub identity: Identity,
    /// How long to wait for room; the start itself is not part of it.
    pub wait: Duration,
}

/// Machines made ahead, and the budget of all machines. Clones are the same pool.
#[derive(Debug, Clone)]
pub struct Pool {
    shared: Arc<Shared>,
    requests: mpsc::UnboundedSender<Request>,
    status: watch::Receiver<PoolStatus>,
}

#[derive(Debug)]
struct Shared {
    host: Arc<VmHost>,
    disk: Arc<Reserve>,
    templates: Vec<Arc<PooledTemplate>>,
    renew_deadline: Duration,
    next_ticket: AtomicU64,
}

impl Pool {
    /// Starts the pool's task and, with it, the first refills. Needs a runtime.
    #[must_use]
    pub fn start(host: Arc<VmHost>, templates: Vec<PooledTemplate>, config: PoolConfig) -> Self {
        let templates: Vec<_> = templates.into_iter().map(Arc::new).collect();
        let renew_deadline = config.renew_deadline;
        let disk = Arc::new(Reserve::new(host.run_dir(), config.disk_reserve_mib));
        let (requests, received) = mpsc::unbounded_channel();
        let ends = (requests.downgrade(), received);
        let (actor, status) = Actor::new((Arc::clone(&host), Arc::clone(&disk)), &templates, config, ends);
        tokio::spawn(actor.run());
        let next_ticket = AtomicU64::new(0);
        Self {
            shared: Arc::new(Shared { host, disk, templates, renew_deadline, next_ticket }),
            requests,
            status,
        }
    }

    /// The templates machines are handed out of.
    #[must_use]
    pub fn templates(&self) -> &[Arc<PooledTemplate>] {
        &self.shared.templates
    }

    /// What stays free on the disk machines write to.
    #[must_use]
    pub fn disk(&self) -> &Reserve {
        &self.shared.disk
    }

    /// How it stands.
    #[must_use]
    pub fn status(&self) -> PoolStatus {
        self.status.borrow().clone()
    }

    /// How it stands, and every change of it.
    #[must_use]
    pub fn watch(&self) -> watch::Receiver<PoolStatus> {
        self.status.clone()
    }

    /// How many clones kept silent and were replaced.
    #[must_use]
    pub fn restores_repeated(&self) -> u64 {
        self.shared.host.restores_repeated()
    }

    /// Takes no more claims, refuses those that wait, and returns when everything made ahead is gone. Leases
    /// are their holders'.
    pub async fn drain(&self) {
        let (reply, drained) = oneshot::channel();
        if self.requests.send(Request::Drain(reply)).is_ok() {
            let _ = drained.await;
        }
    }

    /// A machine for one caller. Dropping the future gives up the place in the queue, or the half-made machine.
    ///
    /// # Errors
    /// See [`ClaimError`].
    pub async fn claim(&self, request: ClaimRequest) -> Result<Lease, ClaimError> {
        let mut watch = Stopwatch::start();
        let asked = Instant::now();
        let (id, template) = self.find(&request)?;
        self.shared.disk.check()?;
        let mut grant = self.admit(id, &template, Wanted::Clone, &request).await?;
        let queued = asked.elapsed();
        watch.stage("claim");
        let start = Start { pool: self, id, template: &template, request: &request };
        match start.make(&mut grant, &mut watch).await {
            Ok((vm, kind, own)) => {
                let mut timings = watch.finish();
                timings.extend(&own);
                let _ = self.requests.send(Request::Started { template: id, kind });
                let Some(permit) = grant.into_permit() else { return Err(ClaimError::ShuttingDown) };
                Ok(Lease { vm, kind, queued, timings, template, _permit: permit })
            }
            Err(error) => {
                start.failed(&error);
                Err(ClaimError::Start(error))
            }
        }
    }

    /// Boots a machine with the disk of one that was stopped. Dropping the future gives up the place in the queue, or
    /// the half-made machine; the disk stays.
    ///
    /// # Errors
    /// See [`ClaimError`].
    pub async fn boot(&self, request: &ClaimRequest, disk: &KeptDisk) -> Result<Booted, ClaimError> {
        let mut watch = Stopwatch::start();
        let (id, template) = self.find(request)?;
        self.shared.disk.check()?;
        let grant = self.admit(id, &template, Wanted::Boot, request).await?;
        watch.stage("claim");
        let plan = Plan { cpu: request.cpu, ..template.source.plan() };
        let booted = template.source.boot_again(&self.shared.host, plan, &request.identity, disk).await;
        let vm = match booted {
            Ok(vm) => vm,
            Err(error) => {
                Start { pool: self, id, template: &template, request }.failed(&error);
                return Err(ClaimError::Start(error));
            }
        };
        let mut timings = watch.finish();
        timings.extend(vm.timings());
        let Some(permit) = grant.into_permit() else { return Err(ClaimError::ShuttingDown) };
        Ok(Booted { vm: Arc::new(vm), timings, permit })
    }

    fn find(&self, request: &ClaimRequest) -> Result<(TemplateId, Arc<PooledTemplate>), ClaimError> {
        let named = |template: &Arc<PooledTemplate>| *template.name() == request.template;
        match self.shared.templates.iter().position(named) {
            Some(at) => Ok((TemplateId(at), Arc::clone(&self.shared.templates[at]))),
            None => Err(ClaimError::UnknownTemplate { template: request.template.clone() }),
        }
    }

    /// Waits for room.
    async fn admit(
        &self,
        id: TemplateId,
        template: &PooledTemplate,
        wanted: Wanted,
        request: &ClaimRequest,
    ) -> Result<Grant, ClaimError> {
        let ticket = self.shared.next_ticket.fetch_add(1, Ordering::Relaxed);
        let (reply, mut granted) = oneshot::channel();
        let whole = u64::from(template.source.recipe.vcpus) * 1000;
        let claim = Request::Claim {
            ticket,
            tenant: request.tenant.clone(),
            template: id,
            wanted,
            milli_cpus: request.cpu.map_or(whole, |cpu| u64::from(cpu.millis)),
            reply,
        };
        self.requests.send(claim).map_err(|_| ClaimError::ShuttingDown)?;
        let mut place = Place { ticket, requests: Some(&self.requests) };
        let granted = match timeout(request.wait, &mut granted).await {
            Ok(granted) => granted,
            Err(_) => {
                // It is answered either way: a grant may have crossed this.
                let _ = self.requests.send(Request::TimedOut { ticket });
                granted.await
            }
        };
        place.requests = None;
        granted.unwrap_or(Err(ClaimError::ShuttingDown))
    }
}

/// A place in the queue, given up when the claim is dropped.
struct Place<'a> {
    ticket: u64,
    requests: Option<&'a mpsc::UnboundedSender<Request>>,
}

impl Drop for Place<'_> {
    fn drop(&mut self) {
        if let Some(requests) = self.requests {
            let _ = requests.send(Request::GivenUp { ticket: self.ticket });
        }
    }
}

/// A claim that was admitted. What was made ahead and turns out unusable is replaced by a fresh machine, once.
struct Start<'a> {
    pool: &'a Pool,
    id: TemplateId,
    template: &'a PooledTemplate,
    request: &'a ClaimRequest,
}

impl Start<'_> {
    /// The machine, and the stages its own start took. The grant holds everything that must be undone when this
    /// is dropped.
    async fn make(
        &self,
        grant: &mut Grant,
        watch: &mut Stopwatch,
    ) -> Result<(Arc<Vm>, StartKind, Timings), StartError> {
        match grant.machine.take() {
            Some(Ready::Parked(vm)) => {
                grant.machine = Some(Ready::Parked(Arc::clone(&vm)));
                match self.renew(&vm).await {
                    Ok(()) => {
                        watch.stage("renew");
                        return Ok((vm, StartKind::Parked, Timings::default()));
                    }
                    Err(error) => self.failed(&error),
                }
                vm.end().await;
                grant.machine = None;
                watch.stage("renew");
            }
            Some(Ready::Prespawned(waiting)) => match self.load(grant, *waiting, watch).await {
                Ok(vm) => return Ok((vm, StartKind::Prespawned, Timings::default())),
                Err(error) => {
                    self.failed(&error);
                    watch.stage("load");
                }
            },
            None => {}
        }
        let plan = Plan { cpu: self.request.cpu, ..self.template.source.plan() };
        let host = &self.pool.shared.host;
        let vm = restore_clone(host, &self.template.snapshot, &plan, &self.request.identity).await?;
        let own = vm.timings().clone();
        Ok((Arc::new(vm), StartKind::Restored, own))
    }

    async fn renew(&self, vm: &Vm) -> Result<(), StartError> {
        vm.raise_cpu_weight(self.request.cpu).await?;
        vm.renew(&self.request.identity, self.pool.shared.renew_deadline).await
    }

    async fn load(
        &self,
        grant: &mut Grant,
        waiting: Prespawned,
        watch: &mut Stopwatch,
    ) -> Result<Arc<Vm>, StartError> {
        let running = waiting.load().await?;
        watch.stage("load");
        let connected = running.connect().await?;
        watch.stage("connect");
        let vm = Arc::new(connected.open_gate(&self.request.identity).await?);
        if self.request.cpu.is_some() {
            grant.machine = Some(Ready::Parked(Arc::clone(&vm)));
            if let Err(error) = vm.raise_cpu_weight(self.request.cpu).await {
                vm.end().await;
                grant.machine = None;
                return Err(error);
            }
        }
        watch.stage("gate");
        Ok(vm)
    }

    fn failed(&self, error: &StartError) {
        let error = error as &dyn std::error::Error;
        tracing::warn!(error, template = %self.template.name(), "a machine could not be handed over");
        let _ = self.pool.requests.send(Request::StartFailed { template: self.id });
    }
}
