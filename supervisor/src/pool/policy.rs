//! Who gets a machine, which parked one gives way, and what is made next. Pure: no I/O, no lock; what time it is,
//! the actor says.
//!
//! ```text
//! ask ──▶ queue ──next──▶ Grant ──▶ claimed ──release──▶ free
//!                  ├────▶ Evict ──▶ leaving ──gone─────▶ free       a parked machine in the claim's way
//!                  └────▶ Fill  ──▶ filling ──filled───▶ parked     only with room to spare
//! ```
//!
//! The actor tells it what happened and calls [`Policy::next`] until there is nothing to do before
//! [`Policy::wakes_at`].
//!
//! Claims are met in the order of turns. One that cannot be met now does not keep others from what they can have: they
//! go past it, [`MAX_OVERTAKEN`] times. Then it holds the queue, and what becomes free is kept for it until it is met
//! or gives up. The operator goes past everyone, or it could not look after a host whose queue is held.

use std::time::{Duration, Instant};

use super::config::PoolConfig;
use super::demand::{Asker, Demand, Wanted};
use super::error::{ClaimError, Resource, Shortage};
use super::pacing::HeadStart;
use super::queue::FairQueue;
use super::template::{Kind, Room, Template, TemplateId};

/// How often others go past a claim that cannot be met before it holds the queue.
pub(super) const MAX_OVERTAKEN: u32 = 16;
/// The longest a caller is told to stay away.
const LONGEST_RETRY: Duration = Duration::from_secs(30);

/// A claim that waits.
#[derive(Debug, Clone, Copy)]
struct Asked {
    ticket: u64,
    template: TemplateId,
    wanted: Wanted,
    milli_cpus: u64,
    operator: bool,
    /// How often a tenant went past it since it was its tenant's first.
    overtaken: u32,
}

impl Asked {
    /// Whether tenants may still go past it.
    fn holds(&self) -> bool {
        self.overtaken >= MAX_OVERTAKEN
    }
}

/// Something to do now.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Decision<M> {
    /// The claim gets this machine, or a fresh one.
    Grant { ticket: u64, machine: Option<M>, demand: Demand },
    /// This one is ended.
    Evict { template: TemplateId, kind: Kind, machine: M },
    /// One of these is made.
    Fill { template: TemplateId, kind: Kind },
}

/// Whether a claim can have its machine.
enum Way {
    Now(Option<Kind>),
    Evict(TemplateId, Kind),
    /// What it needs is on its way out: it is not overtaken.
    Soon,
    Wait(Shortage),
}

/// The state decisions are made from, with templates made of `S` and their machines.
#[derive(Debug)]
pub(super) struct Policy<S, M> {
    config: PoolConfig,
    pub(super) total: Demand,
    pub(super) claimed: Demand,
    leaving: Room,
    pub(super) templates: Vec<Template<S, M>>,
    queue: FairQueue<Asked>,
    head_start: HeadStart,
    closed: bool,
}

impl<S, M> Policy<S, M> {
    pub(super) fn new(config: PoolConfig, templates: Vec<Template<S, M>>) -> Self {
        Self {
            total: config.total(),
            config,
            claimed: Demand::default(),
            leaving: Room::default(),
            templates,
            queue: FairQueue::default(),
            head_start: HeadStart::default(),
            closed: false,
        }
    }

    pub(super) fn template(&mut self, id: TemplateId) -> &mut Template<S, M> {
        &mut self.templates[id.0]
    }

    /// Puts a claim in the queue, unless it can never be met, too many wait, in all or of its tenant, or it comes too late.
    pub(super) fn ask(
        &mut self,
        ticket: u64,
        asker: Asker<'_>,
        (template, wanted): (TemplateId, Wanted),
        milli_cpus: u64,
    ) -> Result<(), ClaimError> {
        if self.closed {
            return Err(ClaimError::ShuttingDown);
        }
        let Room { memory_mib, disk_mib } = self.templates[template.0].shape.machine;
        for (resource, asked, total) in [
            (Resource::Memory, memory_mib, self.total.room.memory_mib),
            (Resource::Disk, disk_mib, self.total.room.disk_mib),
            (Resource::Cpu, milli_cpus, self.total.milli_cpus),
        ] {
            if asked > total {
                return Err(ClaimError::TooLarge { resource, asked, total });
            }
        }
        let operator = asker == Asker::Operator;
        let asked = Asked { ticket, template, wanted, milli_cpus, operator, overtaken: 0 };
        if !self.at_once(asker, &asked) {
            let PoolConfig { max_queued, max_queued_per_tenant: most, .. } = self.config;
            let own = self.queue.of(asker.turn());
            if !operator && own >= most {
                return Err(ClaimError::ShareFull { most, retry_after: self.retry_after() });
            }
            let others = self.queue.iter().filter(|other| other.operator == operator).count();
            if others >= max_queued {
                return Err(ClaimError::QueueFull { retry_after: self.retry_after() });
            }
        }
        self.queue.push(asker.turn(), asked);
        Ok(())
    }

    /// Whether a claim would be met before it has waited at all.
    fn at_once(&self, asker: Asker<'_>, asked: &Asked) -> bool {
        let first = self.queue.of(asker.turn()) == 0;
        let held = self.queue.fronts().any(|other| self.blocks(other));
        first && (asked.operator || !held) && matches!(self.way(asked), Way::Now(_))
    }

    /// Whether no tenant may go past a claim now.
    fn blocks(&self, asked: &Asked) -> bool {
        asked.holds() || !matches!(self.way(asked), Way::Wait(_))
    }

    /// Takes a claim out of the queue and says what it waited for; nothing if it does not wait.
    pub(super) fn give_up(&mut self, ticket: u64) -> Option<Shortage> {
        let asked = self.queue.remove(|asked| asked.ticket == ticket)?;
        Some(match self.way(&asked) {
            Way::Now(_) => Shortage::Turn,
            Way::Evict(..) | Way::Soon => self.shortage(&asked),
            Way::Wait(shortage) => shortage,
        })
    }

    /// What somebody is told who got no place: the longer the queue, the longer.
    pub(super) fn retry_after(&self) -> Duration {
        let before = u32::try_from(self.queue.len()).unwrap_or(u32::MAX);
        self.config.retry_after.saturating_mul(before.saturating_add(1)).min(LONGEST_RETRY)
    }

    /// The next thing to do, already accounted for.
    pub(super) fn next(&mut self, now: Instant) -> Option<Decision<M>> {
        if self.closed {
            let ids = (0..self.templates.len()).map(TemplateId);
            let mut left = ids.flat_map(|id| Kind::BOTH.map(|kind| (id, kind)));
            return left.find_map(|(id, kind)| self.evict(id, kind));
        }
        match self.choose() {
            Some((turn, Way::Now(from))) => {
                let asked = self.queue.fronts().nth(turn).copied()?;
                if !asked.operator {
                    self.queue.fronts_mut().take(turn).for_each(|passed| passed.overtaken += 1);
                }
                self.queue.take(turn);
                Some(self.grant(asked, from, now))
            }
            Some((_, Way::Evict(template, kind))) => self.evict(template, kind),
            // What is made now must not take the room that somebody waits for.
            _ => {
                let waited_for =
                    self.queue.fronts().map(|asked| self.templates[asked.template.0].shape.machine);
                self.fill(waited_for.fold(Room::default(), Room::plus), now)
            }
        }
    }

    /// When there may be something to do although nothing happens, after [`next`](Self::next) had nothing at `now`.
    pub(super) fn wakes_at(&self, now: Instant) -> Option<Instant> {
        let rests = self.templates.iter().filter_map(|template| template.backoff.until);
        rests.chain(self.head_start.until).filter(|at| *at > now && !self.closed).min()
    }

    /// The first claim in the order of turns that can be met or evict somebody, and that need not wait behind another.
    fn choose(&self) -> Option<(usize, Way)> {
        let mut held = false;
        for (turn, asked) in self.queue.fronts().enumerate() {
            if held && !asked.operator {
                continue;
            }
            match self.way(asked) {
                way @ (Way::Now(_) | Way::Evict(..)) => return Some((turn, way)),
                Way::Soon => held = true,
                Way::Wait(_) => held |= asked.holds(),
            }
        }
        None
    }

    fn grant(&mut self, asked: Asked, from: Option<Kind>, now: Instant) -> Decision<M> {
        let template = &mut self.templates[asked.template.0];
        let machine = from.and_then(|kind| template.slots_mut(kind).ready.pop_front());
        if machine.is_some() {
            self.head_start.claimed(now, &self.config);
        }
        let mut demand = Demand { room: template.shape.machine, milli_cpus: asked.milli_cpus };
        if asked.wanted == Wanted::Boot {
            demand = demand.minus(demand.disk_alone());
        }
        self.claimed = self.claimed.plus(demand);
        Decision::Grant { ticket: asked.ticket, machine, demand }
    }

    /// Lets the oldest of these go; its room is free when it is [`gone`](Self::gone).
    fn evict(&mut self, id: TemplateId, kind: Kind) -> Option<Decision<M>> {
        let template = &mut self.templates[id.0];
        let machine = template.slots_mut(kind).ready.pop_front()?;
        self.leaving = self.leaving.plus(template.shape.cost(kind));
        Some(Decision::Evict { template: id, kind, machine })
    }

    /// How a claim can be met.
    fn way(&self, asked: &Asked) -> Way {
        if self.claimed.milli_cpus + asked.milli_cpus > self.total.milli_cpus {
            return Way::Wait(Shortage::Cpu);
        }
        let (from, need) = self.offer(asked);
        let free = self.total.room.minus(self.used());
        if need.fits(free) {
            return Way::Now(from);
        }
        // What is on its way out is waited for before anything else is sent after it.
        let short = need.minus(free.plus(self.leaving));
        if short == Room::default() {
            return Way::Soon;
        }
        let own = (asked.template, from);
        match self.victim(own, short).filter(|_| short.fits(self.evictable(own))) {
            Some((template, kind)) => Way::Evict(template, kind),
            None => Way::Wait(self.shortage(asked)),
        }
    }

    /// What a claim gets, and the room that needs beside what is there.
    fn offer(&self, asked: &Asked) -> (Option<Kind>, Room) {
        let template = &self.templates[asked.template.0];
        match asked.wanted {
            Wanted::Clone => template.offer(),
            Wanted::Boot => {
                let machine = template.shape.machine;
                (None, machine.minus(machine.disk_alone()))
            }
        }
    }

    /// Which kind of room a claim lacks.
    fn shortage(&self, asked: &Asked) -> Shortage {
        let free = self.total.room.minus(self.used());
        let (_, need) = self.offer(asked);
        if need.memory_mib > free.memory_mib { Shortage::Memory } else { Shortage::Disk }
    }

    /// Everything that may give way to a claim that itself takes `own`: how many there are, and what each frees.
    fn spare(
        &self,
        own: (TemplateId, Option<Kind>),
        kind: Kind,
    ) -> impl Iterator<Item = (TemplateId, u32, Room)> {
        self.templates.iter().enumerate().map(move |(at, template)| {
            let (id, ready) = (TemplateId(at), template.slots(kind).ready());
            let count = ready.saturating_sub(u32::from(own == (id, Some(kind))));
            (id, count, template.shape.cost(kind))
        })
    }

    fn evictable(&self, own: (TemplateId, Option<Kind>)) -> Room {
        let all = Kind::BOTH.into_iter().flat_map(|kind| self.spare(own, kind));
        all.fold(Room::default(), |sum, (_, count, cost)| sum.plus(cost.times(count)))
    }

    /// Parked machines go first, of the template that has most beyond what it should have at least.
    fn victim(&self, own: (TemplateId, Option<Kind>), short: Room) -> Option<(TemplateId, Kind)> {
        let having = |kind| {
            let helpful = move |(_, count, cost): &(_, u32, Room)| *count > 0 && cost.helps(short);
            self.spare(own, kind).filter(helpful).map(move |(id, ..)| (id, kind))
        };
        let beyond = |(id, _): &(TemplateId, Kind)| {
            let Template { parked, shape, .. } = &self.templates[id.0];
            i64::from(parked.ready()) - i64::from(shape.parked.low)
        };
        having(Kind::Parked).max_by_key(beyond).or_else(|| having(Kind::Prespawned).next())
    }

    /// What to make next, if there is room beside `reserve`: of what is wanted, what there is least of. While a claimed
    /// machine has its head start, only what the next caller would find none of.
    fn fill(&mut self, reserve: Room, now: Instant) -> Option<Decision<M>> {
        let filling =
            |template: &Template<S, M>| (template.parked.filling + template.prespawned.filling) as usize;
        if self.templates.iter().map(filling).sum::<usize>() >= self.config.fill_parallel.max(1) {
            return None;
        }
        let free = self.total.room.minus(self.used().plus(reserve));
        let waits = self.head_start.runs(now);
        for kind in Kind::BOTH {
            let wanted = self.templates.iter_mut().enumerate().filter_map(|(at, template)| {
                let level = template.wanted(kind, now)?;
                let now = !waits || template.slots(kind).ready.is_empty();
                (now && template.shape.cost(kind).fits(free)).then_some((level, at))
            });
            if let Some((_, at)) = wanted.min() {
                self.templates[at].slots_mut(kind).filling += 1;
                return Some(Decision::Fill { template: TemplateId(at), kind });
            }
        }
        None
    }

    /// A refill ended. One that came to nothing makes its template rest, unless the pool's end has cut it short.
    pub(super) fn filled(&mut self, id: TemplateId, kind: Kind, made: Option<M>, now: Instant) {
        let template = &mut self.templates[id.0];
        let slots = template.slots_mut(kind);
        slots.filling -= 1;
        if let Some(machine) = made {
            slots.ready.push_back(machine);
            template.backoff.succeeded();
        } else if !self.closed {
            template.start_failures += 1;
            template.backoff.failed(now, &self.config);
        }
    }

    /// A machine is gone by itself. Whether it was parked: one that was claimed or evicted meanwhile is somebody else's.
    pub(super) fn died(&mut self, id: TemplateId, which: impl Fn(&M) -> bool, now: Instant) -> bool {
        let template = &mut self.templates[id.0];
        let dead = template.parked.ready.iter().position(which);
        let was_parked = dead.and_then(|at| template.parked.ready.remove(at)).is_some();
        if was_parked {
            template.start_failures += 1;
            template.backoff.died(now, &self.config);
        }
        was_parked
    }

    /// One that was evicted is gone.
    pub(super) fn gone(&mut self, id: TemplateId, kind: Kind) {
        self.leaving = self.leaving.minus(self.templates[id.0].shape.cost(kind));
    }

    /// A claim has given its machine back.
    pub(super) fn release(&mut self, demand: Demand) {
        self.claimed = self.claimed.minus(demand);
    }

    /// Nothing is granted or made any more, and what was made ahead is let go; the claims that waited.
    pub(super) fn close(&mut self) -> Vec<u64> {
        self.closed = true;
        std::iter::from_fn(|| self.queue.take(0)).map(|asked| asked.ticket).collect()
    }

    pub(super) fn queued(&self) -> usize {
        self.queue.len()
    }

    /// Memory and disk of everything that is there, on its way in, or on its way out.
    pub(super) fn used(&self) -> Room {
        let there = self.claimed.room.plus(self.leaving);
        self.templates.iter().map(Template::room).fold(there, Room::plus)
    }
}

#[cfg(test)]
mod tests;
