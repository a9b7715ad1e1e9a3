//! What there is of one template, in numbers: how many machines wait or are made, and what they cost. Pure; the
//! policy counts with it.

use super::config::Watermarks;

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
    /// A machine's memory, the monitor's own included.
    pub(super) memory_mib: u64,
    /// A waiting monitor's memory; at most a machine's.
    pub(super) waiting_mib: u64,
    pub(super) parked: Watermarks,
    pub(super) prespawned: u32,
}

impl Shape {
    pub(super) fn cost(&self, kind: Kind) -> u64 {
        match kind {
            Kind::Parked => self.memory_mib,
            Kind::Prespawned => self.waiting_mib,
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
pub(super) struct Stock {
    pub(super) shape: Shape,
    pub(super) parked: Count,
    pub(super) prespawned: Count,
    /// Between the watermarks, on the way up.
    rising: bool,
    /// Its last refill failed a moment ago.
    pub(super) resting: bool,
}

impl Stock {
    pub(super) fn new(shape: Shape) -> Self {
        let none = Count::default();
        Self { shape, parked: none, prespawned: none, rising: false, resting: false }
    }

    pub(super) fn count(&mut self, kind: Kind) -> &mut Count {
        match kind {
            Kind::Parked => &mut self.parked,
            Kind::Prespawned => &mut self.prespawned,
        }
    }

    pub(super) fn memory(&self) -> u64 {
        let of = |count: Count, cost: u64| u64::from(count.ready + count.filling) * cost;
        of(self.parked, self.shape.memory_mib) + of(self.prespawned, self.shape.waiting_mib)
    }

    /// How many are there or on their way, if more are wanted.
    pub(super) fn wanted(&mut self, kind: Kind) -> Option<u32> {
        if self.resting {
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
