//! How a child ended, in words a person can read.

use std::fmt;

/// The end of a process.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ExitReport {
    /// It exited by itself with this code.
    Exited {
        /// The exit code.
        code: i32,
    },
    /// A signal ended it.
    Signaled {
        /// The signal's number.
        signal: i32,
    },
    /// It is gone, and how it ended could not be learnt.
    Unknown,
}

impl ExitReport {
    /// Whether the process ended by itself with code 0.
    #[must_use]
    pub fn is_success(self) -> bool {
        self == Self::Exited { code: 0 }
    }
}

impl fmt::Display for ExitReport {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Exited { code } => write!(f, "exited with code {code}"),
            Self::Signaled { signal } => match nix::sys::signal::Signal::try_from(*signal) {
                Ok(name) => write!(f, "was killed by {name}"),
                Err(_) => write!(f, "was killed by signal {signal}"),
            },
            Self::Unknown => f.write_str("ended in an unknown way"),
        }
    }
}
