//! The task that owns a pool's state. Everyone else sends it requests and watches the status it publishes.
//!
//! It never waits for a machine: what takes time are chores, tasks whose end it is told.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::{Duration, Instant};

use tokio::sync::{mpsc, oneshot, watch};
use tokio::task::{Id, JoinError, JoinSet};

use super::config::{PoolConfig, PooledTemplate};
use super::demand::{Asker, Demand, Wanted};
use super::error::ClaimError;
use super::fill::{self, FillError};
use super::lease::{Grant, Permit, Ready, StartKind};
use super::policy::{Decision, Policy};
use super::status::{Level, PoolStatus};
use super::template::{Kind, Shape, Template, TemplateId};
use crate::host::disk::Reserve;
use crate::vm::{VmHost, VmId};

/// How often the host's disk is looked at while nobody asks.
const LOOK_EVERY: Duration = Duration::from_secs(5);

/// What a pool can be told.
#[derive(Debug)]
pub(super) enum Request {
    /// Somebody wants a machine.
    Claim {
        ticket: u64,
        /// `None` for the operator.
        tenant: Option<String>,
        template: TemplateId,
        wanted: Wanted,
        milli_cpus: u64,
        reply: oneshot::Sender<Result<Grant, ClaimError>>,
    },
    /// It has waited long enough; it is answered either way.
    TimedOut { ticket: u64 },
    /// It has gone away.
    GivenUp { ticket: u64 },
    /// A claim has its machine.
    Started { template: TemplateId, kind: StartKind },
    /// A machine did not start or could not be handed over.
    StartFailed { template: TemplateId },
    /// A share of the budget is free again.
    Released(Demand),
    /// A machine that was parked once has ended.
    Died { template: TemplateId, id: VmId },
    /// No more claims; the answer comes when nothing is left that was made ahead.
    Drain(oneshot::Sender<()>),
}

/// Something that takes time.
#[derive(Debug, Clone, Copy)]
enum Chore {
    Fill(TemplateId, Kind),
    End(TemplateId, Kind),
}

/// The state.
pub(super) struct Actor {
    host: Arc<VmHost>,
    disk: Arc<Reserve>,
    policy: Policy<Arc<PooledTemplate>, Ready>,
    waiting: HashMap<u64, oneshot::Sender<Result<Grant, ClaimError>>>,
    chores: JoinSet<Option<Result<Ready, FillError>>>,
    kinds: HashMap<Id, Chore>,
    requests: mpsc::UnboundedReceiver<Request>,
    /// Weak: the pool ends when nobody holds it or a lease of it any more.
    sender: mpsc::WeakUnboundedSender<Request>,
    closing: watch::Sender<bool>,
    drained: Vec<oneshot::Sender<()>>,
    status: watch::Sender<PoolStatus>,
}

impl Actor {
    pub(super) fn new(
        (host, disk): (Arc<VmHost>, Arc<Reserve>),
        templates: &[Arc<PooledTemplate>],
        config: PoolConfig,
        (sender, requests): (mpsc::WeakUnboundedSender<Request>, mpsc::UnboundedReceiver<Request>),
    ) -> (Self, watch::Receiver<PoolStatus>) {
        let overhead = host.engine().capabilities().memory_overhead_mib;
        let state = |template| Template::new(Arc::clone(template), Shape::of(template, overhead));
        let (status, watched) = watch::channel(PoolStatus::default());
        let actor = Self {
            host,
            disk,
            policy: Policy::new(config, templates.iter().map(state).collect()),
            waiting: HashMap::new(),
            chores: JoinSet::new(),
            kinds: HashMap::new(),
            requests,
            sender,
            closing: watch::Sender::new(false),
            drained: Vec::new(),
            status,
        };
        actor.publish();
        (actor, watched)
    }

    pub(super) async fn run(mut self) {
        let mut looks = tokio::time::interval(LOOK_EVERY);
        looks.set_missed_tick_behavior(tokio::time::MissedTickBehavior::Delay);
        loop {
            let now = Instant::now();
            self.settle(now);
            let wakes_at = self.policy.wakes_at(now);
            tokio::select! {
                _ = looks.tick() => drop(self.disk.check()),
                request = self.requests.recv() => match request {
                    Some(request) => self.handle(request),
                    None => return,
                },
                Some(done) = self.chores.join_next_with_id() => self.done(done),
                () = until(wakes_at) => {}
            }
        }
    }

    fn handle(&mut self, request: Request) {
        match request {
            Request::Claim { ticket, tenant, template, wanted, milli_cpus, reply } => {
                let asker = tenant.as_deref().map_or(Asker::Operator, Asker::Tenant);
                match self.policy.ask(ticket, asker, (template, wanted), milli_cpus) {
                    Ok(()) => drop(self.waiting.insert(ticket, reply)),
                    // A caller that is gone has no use for an answer.
                    Err(error) => drop(reply.send(Err(error))),
                }
            }
            Request::TimedOut { ticket } => {
                if let (Some(reason), Some(reply)) =
                    (self.policy.give_up(ticket), self.waiting.remove(&ticket))
                {
                    let _ =
                        reply.send(Err(ClaimError::Full { reason, retry_after: self.policy.retry_after() }));
                }
            }
            Request::GivenUp { ticket } => {
                self.policy.give_up(ticket);
                self.waiting.remove(&ticket);
            }
            Request::Started { template, kind } => self.policy.template(template).claimed(kind),
            Request::StartFailed { template } => self.policy.template(template).start_failures += 1,
            Request::Released(demand) => self.policy.release(demand),
            Request::Died { template, id } => self.died(template, id),
            Request::Drain(reply) => {
                self.drained.push(reply);
                self.close();
            }
        }
    }

    /// Does everything there is to do now.
    fn settle(&mut self, now: Instant) {
        while let Some(decision) = self.policy.next(now) {
            match decision {
                Decision::Grant { ticket, machine, demand } => self.grant(ticket, machine, demand),
                Decision::Evict { template, kind, machine } => {
                    self.begin(Chore::End(template, kind), async {
                        machine.end().await;
                        None
                    });
                }
                Decision::Fill { template, kind } => {
                    let source = Arc::clone(&self.policy.template(template).source);
                    let filling = fill::fill(Arc::clone(&self.host), source, kind, self.closing.subscribe());
                    let disk = self.disk.check();
                    self.begin(Chore::Fill(template, kind), async move {
                        Some(match disk {
                            Ok(()) => filling.await,
                            Err(low) => Err(FillError::LowDisk(low)),
                        })
                    });
                }
            }
        }
        if *self.closing.borrow() && self.chores.is_empty() {
            for reply in self.drained.drain(..) {
                let _ = reply.send(());
            }
        }
        self.publish();
    }

    fn begin(
        &mut self,
        chore: Chore,
        work: impl Future<Output = Option<Result<Ready, FillError>>> + Send + 'static,
    ) {
        let id = self.chores.spawn(work).id();
        self.kinds.insert(id, chore);
    }

    fn grant(&mut self, ticket: u64, machine: Option<Ready>, demand: Demand) {
        let Some(requests) = self.sender.upgrade() else { return };
        let grant = Grant::new(Permit { demand, requests }, machine);
        // Whoever is gone drops the grant, which undoes it.
        match self.waiting.remove(&ticket) {
            Some(reply) => drop(reply.send(Ok(grant))),
            None => drop(grant),
        }
    }

    fn done(&mut self, done: Result<(Id, Option<Result<Ready, FillError>>), JoinError>) {
        let (id, made) = match done {
            Ok((id, made)) => (id, made),
            Err(error) => {
                tracing::error!(%error, "a task of the pool's has panicked");
                (error.id(), None)
            }
        };
        match self.kinds.remove(&id) {
            Some(Chore::Fill(template, kind)) => self.filled(template, kind, made),
            Some(Chore::End(template, kind)) => self.policy.gone(template, kind),
            None => {}
        }
    }

    fn filled(&mut self, template: TemplateId, kind: Kind, made: Option<Result<Ready, FillError>>) {
        match &made {
            Some(Ok(Ready::Parked(vm))) => {
                watch_over(template, vm.id(), vm.end_watch(), self.sender.clone());
            }
            Some(Err(error)) if !*self.closing.borrow() => {
                let error = error as &dyn std::error::Error;
                let template = self.policy.template(template).source.name().as_str();
                tracing::warn!(error, template, ?kind, "nothing was made ahead");
            }
            _ => {}
        }
        self.policy.filled(template, kind, made.and_then(Result::ok), Instant::now());
    }

    fn died(&mut self, template: TemplateId, id: VmId) {
        let dead = |ready: &Ready| matches!(ready, Ready::Parked(vm) if vm.id() == id);
        if self.policy.died(template, dead, Instant::now()) {
            let template = self.policy.template(template).source.name();
            tracing::warn!(%id, %template, "a parked machine died");
        }
    }

    fn close(&mut self) {
        if self.closing.send_replace(true) {
            return;
        }
        for ticket in self.policy.close() {
            if let Some(reply) = self.waiting.remove(&ticket) {
                let _ = reply.send(Err(ClaimError::ShuttingDown));
            }
        }
    }

    fn publish(&self) {
        let (used, total) = (self.policy.used(), self.policy.total);
        let now = PoolStatus {
            memory_mib: Level { used: used.memory_mib, total: total.room.memory_mib },
            disk_mib: Level { used: used.disk_mib, total: total.room.disk_mib },
            disk_free_mib: self.disk.seen().free_mib,
            disk_low: self.disk.seen().low,
            milli_cpus: Level { used: self.policy.claimed.milli_cpus, total: total.milli_cpus },
            queued: self.policy.queued(),
            draining: *self.closing.borrow(),
            templates: self.policy.templates.iter().map(Template::status).collect(),
        };
        self.status.send_if_modified(|status| {
            let changed = *status != now;
            *status = now;
            changed
        });
    }
}

/// Completes at that time, or never.
async fn until(at: Option<Instant>) {
    match at {
        Some(at) => tokio::time::sleep_until(at.into()).await,
        None => std::future::pending().await,
    }
}

/// Tells the pool of a parked machine's end, without keeping either of them.
fn watch_over(
    template: TemplateId,
    id: VmId,
    ended: impl Future<Output = crate::vm::Death> + Send + 'static,
    pool: mpsc::WeakUnboundedSender<Request>,
) {
    tokio::spawn(async move {
        ended.await;
        if let Some(pool) = pool.upgrade() {
            let _ = pool.send(Request::Died { template, id });
        }
    });
}
