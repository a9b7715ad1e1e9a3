//! The task that owns a pool's state. Everyone else sends it requests and watches the status it publishes.
//!
//! It never waits for a machine: what takes time are chores, tasks whose end it is told.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::{Duration, Instant};

use tokio::sync::{mpsc, oneshot, watch};
use tokio::task::{Id, JoinError, JoinSet};

use super::config::{PoolConfig, PooledTemplate};
use super::error::ClaimError;
use super::fill::{self, FillError};
use super::lease::{Grant, Permit, Ready, StartKind};
use super::policy::{Asker, Decision, Demand, Policy, Refused};
use super::status::{Level, PoolStatus};
use super::template_counts::{Kind, Shape};
use super::template_slots::TemplateSlots;
use crate::host::disk::Reserve;
use crate::vm::{VmHost, VmId};

/// Claims this many head starts apart come one at a time.
const A_WHILE: u32 = 5;
/// How often the host's disk is looked at while nobody asks.
const LOOK_EVERY: Duration = Duration::from_secs(5);
/// The longest a caller is told to stay away.
const LONGEST_RETRY: Duration = Duration::from_secs(30);

/// What a pool can be told.
#[derive(Debug)]
pub(super) enum Request {
    /// Somebody wants a machine.
    Claim {
        ticket: u64,
        /// `None` for the operator.
        tenant: Option<String>,
        template: usize,
        cpu_millis: u64,
        reply: oneshot::Sender<Result<Grant, ClaimError>>,
    },
    /// It has waited long enough; it is answered either way.
    TimedOut { ticket: u64 },
    /// It has gone away.
    GivenUp { ticket: u64 },
    /// A claim has its machine.
    Started { template: usize, kind: StartKind },
    /// A machine did not start or could not be handed over.
    StartFailed { template: usize },
    /// A share of the budget is free again.
    Released(Demand),
    /// A machine that was parked once has ended.
    Died { template: usize, id: VmId },
    /// No more claims; the answer comes when nothing is left that was made ahead.
    Drain(oneshot::Sender<()>),
}

/// Something that takes time.
#[derive(Debug, Clone, Copy)]
enum Chore {
    Fill(usize, Kind),
    End(usize, Kind),
    Rest(usize),
}

/// The state.
pub(super) struct Actor {
    host: Arc<VmHost>,
    disk: Arc<Reserve>,
    config: PoolConfig,
    policy: Policy,
    templates: Vec<TemplateSlots>,
    waiting: HashMap<u64, oneshot::Sender<Result<Grant, ClaimError>>>,
    chores: JoinSet<Option<Result<Ready, FillError>>>,
    kinds: HashMap<Id, Chore>,
    requests: mpsc::UnboundedReceiver<Request>,
    /// Weak: the pool ends when nobody holds it or a lease of it any more.
    sender: mpsc::WeakUnboundedSender<Request>,
    closing: watch::Sender<bool>,
    drained: Vec<oneshot::Sender<()>>,
    /// When a machine that had been made ahead was last handed out, and whether none had been for a while.
    claimed: Option<(Instant, bool)>,
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
        let shapes = templates.iter().map(|template| Shape::of(template, overhead)).collect();
        let (status, watched) = watch::channel(PoolStatus::default());
        let mut actor = Self {
            host,
            disk,
            policy: Policy::new(config.total(), shapes, config.bounds()),
            config,
            templates: templates.iter().cloned().map(TemplateSlots::new).collect(),
            waiting: HashMap::new(),
            chores: JoinSet::new(),
            kinds: HashMap::new(),
            requests,
            sender,
            closing: watch::Sender::new(false),
            drained: Vec::new(),
            claimed: None,
            status,
        };
        actor.publish();
        (actor, watched)
    }

    pub(super) async fn run(mut self) {
        let mut looks = tokio::time::interval(LOOK_EVERY);
        looks.set_missed_tick_behavior(tokio::time::MissedTickBehavior::Delay);
        self.settle();
        loop {
            tokio::select! {
                _ = looks.tick() => drop(self.disk.check()),
                request = self.requests.recv() => match request {
                    Some(request) => self.handle(request),
                    None => return,
                },
                Some(done) = self.chores.join_next_with_id() => self.done(done),
            }
            self.settle();
        }
    }

    fn handle(&mut self, request: Request) {
        match request {
            Request::Claim { ticket, tenant, template, cpu_millis, reply } => {
                let refused = if *self.closing.borrow() {
                    Some(ClaimError::ShuttingDown)
                } else {
                    let asker = tenant.as_deref().map_or(Asker::Operator, Asker::Tenant);
                    let asked = self.policy.ask(ticket, asker, template, cpu_millis);
                    asked.err().map(|refused| self.refusal(refused))
                };
                match refused {
                    // A caller that is gone has no use for an answer.
                    Some(error) => drop(reply.send(Err(error))),
                    None => drop(self.waiting.insert(ticket, reply)),
                }
            }
            Request::TimedOut { ticket } => {
                if let (Some(reason), Some(reply)) =
                    (self.policy.give_up(ticket), self.waiting.remove(&ticket))
                {
                    let _ = reply.send(Err(ClaimError::Full { reason, retry_after: self.retry_after() }));
                }
            }
            Request::GivenUp { ticket } => {
                self.policy.give_up(ticket);
                self.waiting.remove(&ticket);
            }
            Request::Started { template, kind } => self.templates[template].claimed(kind),
            Request::StartFailed { template } => self.templates[template].start_failures += 1,
            Request::Released(demand) => self.policy.release(demand),
            Request::Died { template, id } => self.died(template, id),
            Request::Drain(reply) => {
                self.drained.push(reply);
                self.close();
            }
        }
    }

    fn refusal(&self, refused: Refused) -> ClaimError {
        match refused {
            Refused::TooLarge { resource, asked, total } => ClaimError::TooLarge { resource, asked, total },
            Refused::QueueFull => ClaimError::QueueFull { retry_after: self.retry_after() },
            Refused::ShareFull { most } => ClaimError::ShareFull { most, retry_after: self.retry_after() },
        }
    }

    fn retry_after(&self) -> Duration {
        let before = u32::try_from(self.policy.queued()).unwrap_or(u32::MAX);
        self.config.retry_after.saturating_mul(before.saturating_add(1)).min(LONGEST_RETRY)
    }

    /// Does everything there is to do now.
    fn settle(&mut self) {
        while let Some(decision) = self.policy.next() {
            match decision {
                Decision::Grant { ticket, template, from, demand } => {
                    self.grant(ticket, template, from, demand);
                }
                Decision::Evict { template, kind } => self.end(template, kind),
                Decision::Fill { template, kind } => {
                    let slots = Arc::clone(&self.templates[template].template);
                    let when = self.head_start(template, kind);
                    let filling =
                        fill::fill(Arc::clone(&self.host), slots, kind, when, self.closing.subscribe());
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

    /// How long the next one may wait to be made, so that it does not take processors from a program that was just
    /// sent to the last one. Not at all when claims come in a row, or the next one would find nothing.
    fn head_start(&mut self, template: usize, kind: Kind) -> Duration {
        match self.claimed {
            Some((claimed, true)) if !self.templates[template].of(kind).is_empty() => {
                self.config.head_start.saturating_sub(claimed.elapsed())
            }
            _ => Duration::ZERO,
        }
    }

    fn begin(
        &mut self,
        chore: Chore,
        work: impl Future<Output = Option<Result<Ready, FillError>>> + Send + 'static,
    ) {
        let id = self.chores.spawn(work).id();
        self.kinds.insert(id, chore);
    }

    fn grant(&mut self, ticket: u64, template: usize, from: Option<Kind>, demand: Demand) {
        let machine = from.and_then(|kind| self.templates[template].of(kind).pop_front());
        if machine.is_some() {
            let a_while = self.config.head_start.saturating_mul(A_WHILE);
            let alone = self.claimed.is_none_or(|(last, _)| last.elapsed() > a_while);
            self.claimed = Some((Instant::now(), alone));
        }
        let Some(requests) = self.sender.upgrade() else { return };
        let grant = Grant::new(Permit { demand, requests }, machine);
        // Whoever is gone drops the grant, which undoes it.
        match self.waiting.remove(&ticket) {
            Some(reply) => drop(reply.send(Ok(grant))),
            None => drop(grant),
        }
    }

    /// Ends one that the policy has let go, oldest first.
    fn end(&mut self, template: usize, kind: Kind) {
        let ready = self.templates[template].of(kind).pop_front();
        self.begin(Chore::End(template, kind), async {
            if let Some(ready) = ready {
                ready.end().await;
            }
            None
        });
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
            Some(Chore::Rest(template)) => {
                self.templates[template].backing_off = false;
                self.policy.back_off(template, false);
            }
            None => {}
        }
    }

    fn filled(&mut self, template: usize, kind: Kind, made: Option<Result<Ready, FillError>>) {
        self.policy.filled(template, kind, matches!(made, Some(Ok(_))));
        let slots = &mut self.templates[template];
        match made {
            Some(Ok(ready)) => {
                slots.failed_in_a_row = 0;
                if let Ready::Parked(vm) = &ready {
                    watch_over(template, vm.id(), vm.end_watch(), self.sender.clone());
                }
                slots.of(kind).push_back(ready);
                if *self.closing.borrow() {
                    self.policy.leave(template, kind);
                    self.end(template, kind);
                }
            }
            Some(Err(FillError::Closing)) => {}
            failed => {
                slots.start_failures += 1;
                slots.failed_in_a_row = slots.failed_in_a_row.saturating_add(1);
                if let Some(Err(error)) = failed {
                    let error = &error as &dyn std::error::Error;
                    let template = slots.template.name().as_str();
                    tracing::warn!(error, template, ?kind, "nothing was made ahead");
                }
                self.back_off(template);
            }
        }
    }

    /// Lets a template be for a while, longer after every failure: a snapshot that cannot be restored would
    /// otherwise keep the host busy for nothing.
    fn back_off(&mut self, template: usize) {
        let slots = &mut self.templates[template];
        if std::mem::replace(&mut slots.backing_off, true) {
            return;
        }
        let doubled = 1_u32.checked_shl(slots.failed_in_a_row.saturating_sub(1)).unwrap_or(u32::MAX);
        let rest = self.config.first_backoff.saturating_mul(doubled).min(self.config.longest_backoff);
        self.policy.back_off(template, true);
        let mut closing = self.closing.subscribe();
        self.begin(Chore::Rest(template), async move {
            tokio::select! {
                () = tokio::time::sleep(rest) => {}
                () = fill::closed(&mut closing) => {}
            }
            None
        });
    }

    fn died(&mut self, template: usize, id: VmId) {
        let parked = &mut self.templates[template].parked;
        let dead = |ready: &Ready| matches!(ready, Ready::Parked(vm) if vm.id() == id);
        // One that was claimed or evicted meanwhile is somebody else's.
        if let Some(at) = parked.iter().position(dead) {
            parked.remove(at);
            self.policy.died(template);
            self.templates[template].start_failures += 1;
            tracing::warn!(%id, template = %self.templates[template].template.name(), "a parked machine died");
            // One that keeps dying must not keep the host busy either.
            self.templates[template].failed_in_a_row = self.templates[template].failed_in_a_row.max(1);
            self.back_off(template);
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
        for template in 0..self.templates.len() {
            for kind in [Kind::Parked, Kind::Prespawned] {
                for _ in 0..self.templates[template].of(kind).len() {
                    self.policy.leave(template, kind);
                    self.end(template, kind);
                }
            }
        }
    }

    fn publish(&mut self) {
        let (used, total) = (self.policy.used(), self.policy.total());
        let template = |(at, slots): (usize, &TemplateSlots)| slots.status(self.policy.counts(at));
        let now = PoolStatus {
            memory_mib: Level { used: used.memory_mib, total: total.room.memory_mib },
            disk_mib: Level { used: used.disk_mib, total: total.room.disk_mib },
            disk_free_mib: self.disk.seen().free_mib,
            disk_low: self.disk.seen().low,
            cpu_millis: Level { used: self.policy.used_millis(), total: total.cpu_millis },
            queued: self.policy.queued(),
            draining: *self.closing.borrow(),
            templates: self.templates.iter().enumerate().map(template).collect(),
        };
        self.status.send_if_modified(|status| {
            let changed = *status != now;
            *status = now;
            changed
        });
    }
}

/// Tells the pool of a parked machine's end, without keeping either of them.
fn watch_over(
    template: usize,
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
