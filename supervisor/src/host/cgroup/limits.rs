//! The limits of one group, and the ones a host cannot enforce.

use std::fmt;

use serde::{Deserialize, Serialize};

/// A share of the host's processors, in thousandths of one.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub struct CpuQuota {
    /// 1000 is one whole processor, 500 half of one.
    pub millis: u32,
}

impl CpuQuota {
    /// Length of an accounting period. Short, so that a throttled guest stutters instead of freezing.
    pub(super) const PERIOD_US: u64 = 20_000;
    /// The kernel accepts no quota below a millisecond a period.
    const MIN_QUOTA_US: u64 = 1_000;

    /// Processor time per period, in microseconds.
    pub(super) fn quota_us(self) -> u64 {
        (u64::from(self.millis) * Self::PERIOD_US / 1000).max(Self::MIN_QUOTA_US)
    }

    pub(super) fn from_quota(quota_us: u64, period_us: u64) -> Option<Self> {
        let millis = quota_us.checked_mul(1000)?.checked_div(period_us)?;
        Some(Self { millis: u32::try_from(millis).ok()? })
    }
}

/// Who goes first when all of the host's processors are busy. Otherwise it changes nothing.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum CpuWeight {
    /// A machine that somebody works with.
    #[default]
    InUse,
    /// One made ahead that nobody has claimed yet. It gets a fifth of the time that one in use gets: enough to be
    /// ready at last on a host that is always busy.
    Spare,
}

impl CpuWeight {
    /// As a percentage of what every group has that says nothing.
    pub(super) fn percent(self) -> u64 {
        match self {
            Self::InUse => 100,
            Self::Spare => 20,
        }
    }
}

/// Disk traffic on one block device.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct IoLimit {
    /// Major and minor number of the whole disk.
    pub device: (u32, u32),
    /// Bytes a second, reading and writing each.
    pub bytes_per_second: Option<u64>,
    /// Operations a second, reading and writing each.
    pub operations_per_second: Option<u64>,
}

/// What a group may use; `None` means not limited.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Limits {
    /// Processor time.
    pub cpu: Option<CpuQuota>,
    /// Memory in bytes, page cache included, swap excluded.
    pub memory_bytes: Option<u64>,
    /// Processes and threads.
    pub pids: Option<u64>,
    /// Disk traffic.
    pub io: Option<IoLimit>,
}

impl Limits {
    /// The kinds of limit that are set.
    pub(super) fn kinds(&self) -> impl Iterator<Item = LimitKind> {
        [
            self.cpu.map(|_| LimitKind::Cpu),
            self.memory_bytes.map(|_| LimitKind::Memory),
            self.pids.map(|_| LimitKind::Pids),
            self.io.map(|_| LimitKind::Io),
        ]
        .into_iter()
        .flatten()
    }
}

/// A kind of limit, named as a person would.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum LimitKind {
    /// Processor time.
    Cpu,
    /// Memory.
    Memory,
    /// Number of processes.
    Pids,
    /// Disk traffic.
    Io,
}

impl LimitKind {
    /// All kinds, in the order they are reported.
    pub const ALL: [Self; 4] = [Self::Cpu, Self::Memory, Self::Pids, Self::Io];
}

impl fmt::Display for LimitKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Cpu => "cpu",
            Self::Memory => "memory",
            Self::Pids => "pids",
            Self::Io => "io",
        })
    }
}

/// A limit this host cannot enforce.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Unenforced {
    /// Which one.
    pub limit: LimitKind,
    /// Why not.
    pub reason: String,
}

impl Unenforced {
    /// What helps where these are missing. Traffic alone is missing where the data have no disk of their own to limit.
    #[must_use]
    pub fn hint(missing: &[Self]) -> &'static str {
        match missing.iter().all(|entry| entry.limit == LimitKind::Io) {
            true => "put the data directory on one local disk, and run as root or with Delegate=yes",
            false => "run as root, or in a systemd unit with Delegate=yes; a container has to be privileged",
        }
    }
}

impl fmt::Display for Unenforced {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} ({})", self.limit, self.reason)
    }
}
