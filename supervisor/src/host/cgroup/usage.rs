//! What a group has used, as its hierarchy counts it.

use serde::Serialize;

/// Figures of one group; `None` where the host does not count.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize)]
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

/// The number after `key` in a file of `key number` lines.
pub(super) fn keyed(text: &str, key: &str) -> Option<u64> {
    text.lines().find_map(|line| line.strip_prefix(key)?.trim_start().parse().ok())
}
