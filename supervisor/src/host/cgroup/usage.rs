//! What a group has used, as its hierarchy counts it.

use std::time::Duration;

/// Figures of one group; `None` where the host does not count.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Usage {
    /// Processor time used, in microseconds.
    pub cpu_usec: Option<u64>,
    /// Time spent waiting because the processor quota was used up, in microseconds.
    pub throttled_usec: Option<u64>,
    /// Periods in which that happened.
    pub throttled_periods: Option<u64>,
    /// Memory in use now, in bytes.
    pub memory_bytes: Option<u64>,
    /// The most memory ever in use at once, in bytes.
    pub memory_peak_bytes: Option<u64>,
    /// Processes the kernel killed for lack of memory.
    pub oom_kills: Option<u64>,
    /// Processes and threads now.
    pub pids: Option<u64>,
}

impl Usage {
    /// What a machine has used together with those that were there before it and are gone.
    #[must_use]
    pub fn after(self, before: Self) -> Self {
        let both = |now: Option<u64>, then: Option<u64>, of: fn(u64, u64) -> u64| match (now, then) {
            (Some(now), Some(then)) => Some(of(now, then)),
            (one, other) => one.or(other),
        };
        Self {
            cpu_usec: both(self.cpu_usec, before.cpu_usec, u64::saturating_add),
            throttled_usec: both(self.throttled_usec, before.throttled_usec, u64::saturating_add),
            throttled_periods: both(self.throttled_periods, before.throttled_periods, u64::saturating_add),
            memory_peak_bytes: both(self.memory_peak_bytes, before.memory_peak_bytes, u64::max),
            oom_kills: both(self.oom_kills, before.oom_kills, u64::saturating_add),
            ..self
        }
    }

    /// The same with the processor time that the supervisor took to understand its guest.
    #[must_use]
    pub fn with_ours(self, time: Duration) -> Self {
        let ours = u64::try_from(time.as_micros()).unwrap_or(u64::MAX);
        Self { cpu_usec: self.cpu_usec.map(|own| own.saturating_add(ours)), ..self }
    }

    /// The same of a machine that is gone: it has no memory and no processes any more.
    #[must_use]
    pub fn gone(self) -> Self {
        Self { memory_bytes: self.memory_bytes.and(Some(0)), pids: self.pids.and(Some(0)), ..self }
    }
}

/// The number after `key` in a file of `key number` lines.
pub(super) fn keyed(text: &str, key: &str) -> Option<u64> {
    text.lines().find_map(|line| line.strip_prefix(key)?.trim_start().parse().ok())
}
