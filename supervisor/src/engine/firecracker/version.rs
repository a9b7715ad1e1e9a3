//! Firecracker versions, and which of them are accepted.

use std::fmt;

/// A version of Firecracker.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct FirecrackerVersion {
    /// Major number.
    pub major: u32,
    /// Minor number.
    pub minor: u32,
    /// Patch number.
    pub patch: u32,
}

/// What is thought of a version.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Verdict {
    /// Tested.
    Accepted,
    /// Known not to work.
    TooOld,
    /// Nobody has tried it: its interface may differ.
    Untested,
}

impl FirecrackerVersion {
    /// The oldest that works: 1.16.0 breaks vsock after a restore.
    pub const MINIMUM: Self = Self { major: 1, minor: 16, patch: 1 };

    /// Reads the first line of `--version`: `Firecracker v1.16.1`.
    #[must_use]
    pub fn parse(line: &str) -> Option<Self> {
        let number = line.split_ascii_whitespace().find_map(|word| word.strip_prefix('v'))?;
        let number = number.split(['-', '+']).next()?;
        let mut parts = number.split('.').map(|part| part.parse::<u32>().ok());
        Some(Self { major: parts.next()??, minor: parts.next()??, patch: parts.next()?? })
    }

    /// Whether this version is used: patches of the tested minor version are, others are not.
    #[must_use]
    pub fn verdict(self) -> Verdict {
        if self < Self::MINIMUM {
            Verdict::TooOld
        } else if (self.major, self.minor) == (Self::MINIMUM.major, Self::MINIMUM.minor) {
            Verdict::Accepted
        } else {
            Verdict::Untested
        }
    }
}

impl fmt::Display for FirecrackerVersion {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}.{}.{}", self.major, self.minor, self.patch)
    }
}
