//! Who claims, what for, and what it is charged.

use super::template::Room;

/// What a claim is charged.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(super) struct Demand {
    pub(super) room: Room,
    pub(super) milli_cpus: u64,
}

impl Demand {
    pub(super) fn plus(self, other: Self) -> Self {
        Self {
            room: self.room.plus(other.room),
            milli_cpus: self.milli_cpus.saturating_add(other.milli_cpus),
        }
    }

    pub(super) fn minus(self, other: Self) -> Self {
        Self {
            room: self.room.minus(other.room),
            milli_cpus: self.milli_cpus.saturating_sub(other.milli_cpus),
        }
    }

    /// What of it is disk.
    pub(super) fn disk_alone(self) -> Self {
        Self { room: self.room.disk_alone(), milli_cpus: 0 }
    }
}

/// Which machine a claim is for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Wanted {
    /// A clone of the template, made ahead or not.
    Clone,
    /// One that is booted with a disk which is charged already.
    Boot,
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
    pub(super) fn turn(&self) -> &str {
        match self {
            Self::Tenant(name) => name,
            Self::Operator => "",
        }
    }
}
