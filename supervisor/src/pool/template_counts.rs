//! What there is of one template, in numbers: how many machines wait or are made, and what they cost. Pure; the
//! policy counts with it.

use super::config::{PooledTemplate, Watermarks};

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
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Count {
    pub(super) ready: u32,
    pub(super) filling: u32,
}

/// What there is of one template.
#[derive(Debug)]
pub(super) struct TemplateCounts {
    pub(super) shape: Shape,
    pub(super) parked: Count,
    pub(super) prespawned: Count,
    /// Between the watermarks, on the way up.
    rising: bool,
    /// Its last refill failed a moment ago.
    pub(super) backing_off: bool,
}

impl TemplateCounts {
    pub(super) fn new(shape: Shape) -> Self {
        let none = Count::default();
        Self { shape, parked: none, prespawned: none, rising: false, backing_off: false }
    }

    pub(super) fn count(&mut self, kind: Kind) -> &mut Count {
        match kind {
            Kind::Parked => &mut self.parked,
            Kind::Prespawned => &mut self.prespawned,
        }
    }

    pub(super) fn room(&self) -> Room {
        let of = |count: Count, cost: Room| cost.times(count.ready + count.filling);
        of(self.parked, self.shape.machine).plus(of(self.prespawned, self.shape.waiting))
    }

    /// How many are there or on their way, if more are wanted.
    pub(super) fn wanted(&mut self, kind: Kind) -> Option<u32> {
        if self.backing_off {
            return None;
        }
        let Count { ready, filling } = *self.count(kind);
        let level = ready + filling;
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
}
