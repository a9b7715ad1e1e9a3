//! Everything there is of one template: the machines that wait, how many are being made, what each costs, and what was
//! counted. Pure; the policy owns it, and what a machine is does not matter to it.

use std::collections::VecDeque;
use std::sync::Arc;
use std::time::Instant;

use super::config::{PooledTemplate, Watermarks};
use super::lease::StartKind;
use super::pacing::Backoff;
use super::status::TemplateStatus;

/// Which of its templates a pool means.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(super) struct TemplateId(pub(super) usize);

/// What a machine takes up for as long as it exists.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(super) struct Room {
    pub(super) memory_mib: u64,
    pub(super) disk_mib: u64,
}

impl Room {
    fn with(self, other: Self, of: impl Fn(u64, u64) -> u64) -> Self {
        Self {
            memory_mib: of(self.memory_mib, other.memory_mib),
            disk_mib: of(self.disk_mib, other.disk_mib),
        }
    }

    pub(super) fn plus(self, other: Self) -> Self {
        self.with(other, u64::saturating_add)
    }

    /// What is left of it; never less than nothing.
    pub(super) fn minus(self, other: Self) -> Self {
        self.with(other, u64::saturating_sub)
    }

    pub(super) fn disk_alone(self) -> Self {
        Self { memory_mib: 0, ..self }
    }

    pub(super) fn times(self, count: u32) -> Self {
        self.with(self, |one, _| one.saturating_mul(count.into()))
    }

    pub(super) fn fits(self, into: Self) -> bool {
        self.minus(into) == Self::default()
    }

    /// Whether giving it up brings somebody closer who is short of `short`.
    pub(super) fn helps(self, short: Self) -> bool {
        self.minus(short) != self
    }
}

/// Things that are made ahead.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(super) enum Kind {
    /// A restored machine.
    Parked,
    /// A monitor without its snapshot.
    Prespawned,
}

impl Kind {
    pub(super) const BOTH: [Self; 2] = [Self::Parked, Self::Prespawned];
}

/// What a template's machines cost, and how many are made ahead.
#[derive(Debug, Clone, Copy)]
pub(super) struct Shape {
    /// A machine, the monitor's own memory included.
    pub(super) machine: Room,
    /// A waiting monitor, with the disk its machine will have; at most a machine.
    pub(super) waiting: Room,
    pub(super) parked: Watermarks,
    pub(super) prespawned: u32,
}

impl Shape {
    /// A template's, on an engine whose monitors take so much memory themselves.
    pub(super) fn of(template: &PooledTemplate, overhead_mib: u64) -> Self {
        let recipe = &template.source.recipe;
        let disk_mib = recipe.scratch_mib;
        Self {
            machine: Room { memory_mib: u64::from(recipe.memory_mib) + overhead_mib, disk_mib },
            waiting: Room { memory_mib: overhead_mib, disk_mib },
            parked: template.parked,
            prespawned: template.prespawned,
        }
    }

    pub(super) fn cost(&self, kind: Kind) -> Room {
        match kind {
            Kind::Parked => self.machine,
            Kind::Prespawned => self.waiting,
        }
    }
}

/// What there is of one kind.
#[derive(Debug)]
pub(super) struct Slots<M> {
    /// Oldest first.
    pub(super) ready: VecDeque<M>,
    pub(super) filling: u32,
}

impl<M> Default for Slots<M> {
    fn default() -> Self {
        Self { ready: VecDeque::new(), filling: 0 }
    }
}

impl<M> Slots<M> {
    pub(super) fn ready(&self) -> u32 {
        u32::try_from(self.ready.len()).unwrap_or(u32::MAX)
    }

    /// How many are there or on their way.
    fn level(&self) -> u32 {
        self.ready().saturating_add(self.filling)
    }
}

/// A template made of `S`, and its machines.
#[derive(Debug)]
pub(super) struct Template<S, M> {
    pub(super) source: S,
    pub(super) shape: Shape,
    pub(super) parked: Slots<M>,
    pub(super) prespawned: Slots<M>,
    /// Between the watermarks, on the way up.
    rising: bool,
    pub(super) backoff: Backoff,
    claims: [u64; 3],
    /// Machines that did not start, died while they waited, or could not be handed over.
    pub(super) start_failures: u64,
}

impl<S, M> Template<S, M> {
    pub(super) fn new(source: S, shape: Shape) -> Self {
        Self {
            source,
            shape,
            parked: Slots::default(),
            prespawned: Slots::default(),
            rising: false,
            backoff: Backoff::default(),
            claims: [0; 3],
            start_failures: 0,
        }
    }

    pub(super) fn slots(&self, kind: Kind) -> &Slots<M> {
        match kind {
            Kind::Parked => &self.parked,
            Kind::Prespawned => &self.prespawned,
        }
    }

    pub(super) fn slots_mut(&mut self, kind: Kind) -> &mut Slots<M> {
        match kind {
            Kind::Parked => &mut self.parked,
            Kind::Prespawned => &mut self.prespawned,
        }
    }

    /// What everything takes up that is there or on its way in.
    pub(super) fn room(&self) -> Room {
        let of = |kind| self.shape.cost(kind).times(self.slots(kind).level());
        of(Kind::Parked).plus(of(Kind::Prespawned))
    }

    /// What a claim gets, and the room that needs beside what is there: a parked machine takes up nothing new.
    pub(super) fn offer(&self) -> (Option<Kind>, Room) {
        let Shape { machine, waiting, .. } = self.shape;
        match (self.parked.ready(), self.prespawned.ready()) {
            (1.., _) => (Some(Kind::Parked), Room::default()),
            (0, 1..) => (Some(Kind::Prespawned), machine.minus(waiting)),
            (0, 0) => (None, machine),
        }
    }

    /// How many are there or on their way, if more are wanted and may be made now.
    pub(super) fn wanted(&mut self, kind: Kind, now: Instant) -> Option<u32> {
        if self.backoff.rests(now) {
            return None;
        }
        let level = self.slots(kind).level();
        let target = match kind {
            Kind::Parked => {
                let Watermarks { low, high } = self.shape.parked;
                let high = high.max(low);
                self.rising = level < low || (self.rising && level < high);
                if self.rising { high } else { 0 }
            }
            Kind::Prespawned => self.shape.prespawned,
        };
        (level < target).then_some(level)
    }

    /// A claim got its machine this way.
    pub(super) fn claimed(&mut self, kind: StartKind) {
        self.claims[kind as usize] += 1;
    }
}

impl<M> Template<Arc<PooledTemplate>, M> {
    /// What is published.
    pub(super) fn status(&self) -> TemplateStatus {
        let claims = |kind: StartKind| self.claims[kind as usize];
        TemplateStatus {
            name: self.source.name().clone(),
            parked: self.parked.ready(),
            prespawned: self.prespawned.ready(),
            filling: self.parked.filling + self.prespawned.filling,
            claims_parked: claims(StartKind::Parked),
            claims_prespawned: claims(StartKind::Prespawned),
            claims_restored: claims(StartKind::Restored),
            start_failures: self.start_failures,
        }
    }
}
