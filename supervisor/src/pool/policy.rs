//! Who gets a machine, which parked one gives way, and what is made next. Pure: no I/O, no lock, no clock.
//!
//! ```text
//! ask ──▶ queue ──next──▶ Grant ──▶ claimed ──release──▶ free
//!                  ├────▶ Evict ──▶ leaving ──gone─────▶ free       a parked machine in the claim's way
//!                  └────▶ Fill  ──▶ filling ──filled───▶ parked     only with room to spare
//! ```
//!
//! The actor tells it what happened and calls [`Policy::next`] until there is nothing to do.
//!
//! Claims are met in the order of turns. One that cannot be met now does not keep others from what they can have: they
//! go past it, [`MAX_OVERTAKEN`] times. Then it holds the queue, and what becomes free is kept for it until it is met
//! or gives up. The operator goes past everyone, or it could not look after a host whose queue is held.

use super::error::{Resource, Shortage};
use super::queue::FairQueue;
use super::template_counts::{Kind, Room, Shape, TemplateCounts};

/// How often others go past a claim that cannot be met before it holds the queue.
pub(super) const MAX_OVERTAKEN: u32 = 16;

/// What a claim is charged.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(super) struct Demand {
    pub(super) room: Room,
    pub(super) cpu_millis: u64,
}

/// Who asks.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Asker<'a> {
    Tenant(&'a str),
    /// Who runs the host: has a place when the queue is full of tenants, and goes past a claim that holds it.
    Operator,
}

impl Asker<'_> {
    /// Whose turn it is taken from. No tenant has an empty name.
    fn turn(&self) -> &str {
        match self {
            Self::Tenant(name) => name,
            Self::Operator => "",
        }
    }
}

/// A claim that waits.
#[derive(Debug, Clone, Copy)]
struct Asked {
    ticket: u64,
    template: usize,
    cpu_millis: u64,
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

/// How many may wait, and how many machines are made ahead at once.
#[derive(Debug, Clone, Copy)]
pub(super) struct Bounds {
    /// Claims of all tenants together; the operator's own are as many again.
    pub(super) max_queued: usize,
    pub(super) max_queued_per_tenant: usize,
    pub(super) fill_parallel: usize,
}

/// Why a claim may not even wait.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Refused {
    TooLarge { resource: Resource, asked: u64, total: u64 },
    QueueFull,
    ShareFull { most: usize },
}

/// Something to do now.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Decision {
    /// The claim gets one of these, or a fresh machine.
    Grant { ticket: u64, template: usize, from: Option<Kind>, demand: Demand },
    /// One of these is ended.
    Evict { template: usize, kind: Kind },
    /// One of these is made.
    Fill { template: usize, kind: Kind },
}

/// Whether a claim can have its machine.
enum Way {
    Now(Option<Kind>),
    Evict {
        template: usize,
        kind: Kind,
    },
    /// What it needs is on its way out: it is not overtaken.
    Soon,
    Wait(Shortage),
}

/// The state decisions are made from.
#[derive(Debug)]
pub(super) struct Policy {
    total: Demand,
    claimed: Demand,
    leaving: Room,
    counts: Vec<TemplateCounts>,
    queue: FairQueue<Asked>,
    bounds: Bounds,
    closed: bool,
}

impl Policy {
    pub(super) fn new(total: Demand, shapes: Vec<Shape>, bounds: Bounds) -> Self {
        Self {
            total,
            claimed: Demand::default(),
            leaving: Room::default(),
            counts: shapes.into_iter().map(TemplateCounts::new).collect(),
            queue: FairQueue::default(),
            bounds,
            closed: false,
        }
    }

    /// Puts a claim in the queue, unless it can never be met or too many wait, in all or of its tenant.
    pub(super) fn ask(
        &mut self,
        ticket: u64,
        asker: Asker<'_>,
        template: usize,
        cpu_millis: u64,
    ) -> Result<(), Refused> {
        let Room { memory_mib, disk_mib } = self.counts[template].shape.machine;
        for (resource, asked, total) in [
            (Resource::Memory, memory_mib, self.total.room.memory_mib),
            (Resource::Disk, disk_mib, self.total.room.disk_mib),
            (Resource::Cpu, cpu_millis, self.total.cpu_millis),
        ] {
            if asked > total {
                return Err(Refused::TooLarge { resource, asked, total });
            }
        }
        let operator = asker == Asker::Operator;
        let asked = Asked { ticket, template, cpu_millis, operator, overtaken: 0 };
        if !self.at_once(asker, &asked) {
            let Bounds { max_queued, max_queued_per_tenant: most, .. } = self.bounds;
            let own = self.queue.of(asker.turn());
            if !operator && own >= most {
                return Err(Refused::ShareFull { most });
            }
            let others = self.queue.iter().filter(|other| other.operator == operator).count();
            if others >= max_queued {
                return Err(Refused::QueueFull);
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
            Way::Evict { .. } | Way::Soon => self.shortage(&asked),
            Way::Wait(shortage) => shortage,
        })
    }

    /// The next thing to do, already accounted for.
    pub(super) fn next(&mut self) -> Option<Decision> {
        if self.closed {
            return None;
        }
        match self.choose() {
            Some((turn, Way::Now(from))) => {
                let asked = self.queue.fronts().nth(turn).copied()?;
                if !asked.operator {
                    self.queue.fronts_mut().take(turn).for_each(|passed| passed.overtaken += 1);
                }
                self.queue.take(turn);
                Some(self.grant(asked, from))
            }
            Some((_, Way::Evict { template, kind })) => {
                self.leave(template, kind);
                Some(Decision::Evict { template, kind })
            }
            // What is made now must not take the room that somebody waits for.
            _ => {
                let waited_for = self.queue.fronts().map(|asked| self.counts[asked.template].shape.machine);
                self.fill(waited_for.fold(Room::default(), Room::plus))
            }
        }
    }

    /// The first claim in the order of turns that can be met or evict somebody, and that need not wait behind another.
    fn choose(&self) -> Option<(usize, Way)> {
        let mut held = false;
        for (turn, asked) in self.queue.fronts().enumerate() {
            if held && !asked.operator {
                continue;
            }
            match self.way(asked) {
                way @ (Way::Now(_) | Way::Evict { .. }) => return Some((turn, way)),
                Way::Soon => held = true,
                Way::Wait(_) => held |= asked.holds(),
            }
        }
        None
    }

    fn grant(&mut self, asked: Asked, from: Option<Kind>) -> Decision {
        let Asked { ticket, template, cpu_millis, .. } = asked;
        let counts = &mut self.counts[template];
        if let Some(kind) = from {
            counts.count(kind).ready -= 1;
        }
        let demand = Demand { room: counts.shape.machine, cpu_millis };
        self.claimed.room = self.claimed.room.plus(demand.room);
        self.claimed.cpu_millis += demand.cpu_millis;
        Decision::Grant { ticket, template, from, demand }
    }

    /// How a claim can be met. A parked machine of its own template takes up nothing new, since it is there.
    fn way(&self, asked: &Asked) -> Way {
        if self.claimed.cpu_millis + asked.cpu_millis > self.total.cpu_millis {
            return Way::Wait(Shortage::Cpu);
        }
        let (from, need) = self.need(asked);
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
            Some((template, kind)) => Way::Evict { template, kind },
            None => Way::Wait(self.shortage(asked)),
        }
    }

    /// What a claim would take, and the room that needs beside what is there.
    fn need(&self, asked: &Asked) -> (Option<Kind>, Room) {
        let TemplateCounts { shape, parked, prespawned, .. } = &self.counts[asked.template];
        match (parked.ready, prespawned.ready) {
            (1.., _) => (Some(Kind::Parked), Room::default()),
            (0, 1..) => (Some(Kind::Prespawned), shape.machine.minus(shape.waiting)),
            (0, 0) => (None, shape.machine),
        }
    }

    /// Which kind of room a claim lacks.
    fn shortage(&self, asked: &Asked) -> Shortage {
        let free = self.total.room.minus(self.used());
        if self.need(asked).1.memory_mib > free.memory_mib { Shortage::Memory } else { Shortage::Disk }
    }

    /// How many of these may give way to a claim that itself takes `own`.
    fn spare(&self, own: (usize, Option<Kind>), template: usize, kind: Kind) -> u32 {
        let counts = &self.counts[template];
        let ready = match kind {
            Kind::Parked => counts.parked.ready,
            Kind::Prespawned => counts.prespawned.ready,
        };
        ready - u32::from(own == (template, Some(kind)) && ready > 0)
    }

    fn evictable(&self, own: (usize, Option<Kind>)) -> Room {
        let of = |template: usize, kind| {
            self.counts[template].shape.cost(kind).times(self.spare(own, template, kind))
        };
        let both = |at| of(at, Kind::Parked).plus(of(at, Kind::Prespawned));
        (0..self.counts.len()).map(both).fold(Room::default(), Room::plus)
    }

    /// Parked machines go first, of the template that has most beyond what it should have at least.
    fn victim(&self, own: (usize, Option<Kind>), short: Room) -> Option<(usize, Kind)> {
        let beyond = |at: &usize| {
            let counts = &self.counts[*at];
            i64::from(counts.parked.ready) - i64::from(counts.shape.parked.low)
        };
        let having = |kind| {
            (0..self.counts.len()).filter(move |at| {
                self.spare(own, *at, kind) > 0 && self.counts[*at].shape.cost(kind).helps(short)
            })
        };
        let parked = having(Kind::Parked).max_by_key(beyond).map(|at| (at, Kind::Parked));
        parked.or_else(|| having(Kind::Prespawned).next().map(|at| (at, Kind::Prespawned)))
    }

    /// What to make next, if there is room beside `reserve`: of what is wanted, what there is least of.
    fn fill(&mut self, reserve: Room) -> Option<Decision> {
        let filling = |counts: &TemplateCounts| (counts.parked.filling + counts.prespawned.filling) as usize;
        if self.counts.iter().map(filling).sum::<usize>() >= self.bounds.fill_parallel {
            return None;
        }
        let free = self.total.room.minus(self.used().plus(reserve));
        for kind in [Kind::Parked, Kind::Prespawned] {
            let wanted = self.counts.iter_mut().enumerate().filter_map(|(template, counts)| {
                let level = counts.wanted(kind)?;
                counts.shape.cost(kind).fits(free).then_some((level, template))
            });
            if let Some((_, template)) = wanted.min() {
                self.counts[template].count(kind).filling += 1;
                return Some(Decision::Fill { template, kind });
            }
        }
        None
    }

    /// A refill ended.
    pub(super) fn filled(&mut self, template: usize, kind: Kind, there: bool) {
        let count = self.counts[template].count(kind);
        count.filling -= 1;
        count.ready += u32::from(there);
    }

    /// A template is not refilled while it rests.
    pub(super) fn back_off(&mut self, template: usize, backing_off: bool) {
        self.counts[template].backing_off = backing_off;
    }

    /// A parked machine is gone by itself.
    pub(super) fn died(&mut self, template: usize) {
        self.counts[template].parked.ready -= 1;
    }

    /// One that was ready is being ended; its room is free when it is [`gone`](Self::gone).
    pub(super) fn leave(&mut self, template: usize, kind: Kind) {
        let counts = &mut self.counts[template];
        counts.count(kind).ready -= 1;
        self.leaving = self.leaving.plus(counts.shape.cost(kind));
    }

    /// One that was leaving is gone.
    pub(super) fn gone(&mut self, template: usize, kind: Kind) {
        self.leaving = self.leaving.minus(self.counts[template].shape.cost(kind));
    }

    /// A claim has given its machine back.
    pub(super) fn release(&mut self, demand: Demand) {
        self.claimed.room = self.claimed.room.minus(demand.room);
        self.claimed.cpu_millis -= demand.cpu_millis;
    }

    /// Nothing is granted or made any more; the claims that waited.
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
        self.counts.iter().map(TemplateCounts::room).fold(there, Room::plus)
    }

    pub(super) fn used_millis(&self) -> u64 {
        self.claimed.cpu_millis
    }

    pub(super) fn total(&self) -> Demand {
        self.total
    }

    /// Parked, prespawned, and of both the ones being made.
    pub(super) fn counts(&self, template: usize) -> (u32, u32, u32) {
        let TemplateCounts { parked, prespawned, .. } = &self.counts[template];
        (parked.ready, prespawned.ready, parked.filling + prespawned.filling)
    }
}

#[cfg(test)]
mod tests;
