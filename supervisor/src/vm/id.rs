//! Names of machines: random, so that no two supervisors ever choose the same.

use std::fmt;

/// Names one machine on this host: its directory, its control group, its log lines.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct VmId(u64);

impl VmId {
    /// A new name.
    ///
    /// # Errors
    /// When the system has no random bytes.
    pub fn random() -> Result<Self, getrandom::Error> {
        getrandom::u64().map(Self)
    }

    /// A number below `count`, spread evenly over all names.
    pub(super) fn spread(self, count: u32) -> u32 {
        (self.0 % u64::from(count.max(1))) as u32
    }
}

impl fmt::Display for VmId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:016x}", self.0)
    }
}
