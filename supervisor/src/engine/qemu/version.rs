//! QEMU versions, and what depends on them.

use std::fmt;

/// A version of QEMU.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct QemuVersion {
    /// Major number.
    pub major: u32,
    /// Minor number.
    pub minor: u32,
    /// Micro number.
    pub micro: u32,
}

impl QemuVersion {
    /// The oldest that is known to work.
    pub const MINIMUM: Self = Self { major: 7, minor: 2, micro: 0 };

    /// Reads the first line of `--version`: `QEMU emulator version 7.2.22 (Debian …)`.
    #[must_use]
    pub fn parse(line: &str) -> Option<Self> {
        let number = line.split("version ").nth(1)?.split([' ', '(', '\n']).next()?;
        let mut parts = number.split('.').map(|part| {
            let digits: String = part.chars().take_while(char::is_ascii_digit).collect();
            digits.parse::<u32>().ok()
        });
        Some(Self {
            major: parts.next()??,
            minor: parts.next()??,
            micro: parts.next().flatten().unwrap_or(0),
        })
    }

    /// Whether migration knows `file:` addresses. Before, a plain file was passed as `fd:`, which later
    /// releases deprecate.
    pub(super) fn has_file_migration(self) -> bool {
        (self.major, self.minor) >= (8, 2)
    }
}

impl fmt::Display for QemuVersion {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}.{}.{}", self.major, self.minor, self.micro)
    }
}
