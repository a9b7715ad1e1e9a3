//! Why a claim got no machine.

use std::fmt;
use std::time::Duration;

use crate::config::TemplateName;
use crate::host::disk::LowDisk;
use crate::vm::StartError;

/// Something there is only so much of.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Resource {
    /// Memory, in MiB.
    Memory,
    /// Processors, in thousandths.
    Cpu,
    /// Scratch disks, in MiB.
    Disk,
}

impl fmt::Display for Resource {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Memory => "MiB of memory",
            Self::Cpu => "thousandths of a processor",
            Self::Disk => "MiB of disk",
        })
    }
}

/// What a claim waited for in vain.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Shortage {
    /// Memory.
    Memory,
    /// Processors.
    Cpu,
    /// Room for its disk.
    Disk,
    /// Its turn: there was room, and others were before it.
    Turn,
}

impl fmt::Display for Shortage {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Memory => "all memory is in use",
            Self::Cpu => "all processors are in use",
            Self::Disk => "all disk space is promised",
            Self::Turn => "others are waiting",
        })
    }
}

/// Why a claim got no machine.
#[derive(Debug, thiserror::Error)]
pub enum ClaimError {
    /// No such template.
    #[error("there is no template {template}")]
    UnknownTemplate {
        /// What was asked for.
        template: TemplateName,
    },
    /// There was no room for as long as the caller was willing to wait.
    #[error("there is no room for a sandbox: {reason}")]
    Full {
        /// What was missing.
        reason: Shortage,
        /// When trying again may help.
        retry_after: Duration,
    },
    /// So many wait already that nobody else may.
    #[error("there is no room for a sandbox and the queue is full")]
    QueueFull {
        /// When trying again may help.
        retry_after: Duration,
    },
    /// The tenant has as many waiting as it may.
    #[error("there is no room for a sandbox and {most} requests of the tenant wait already")]
    ShareFull {
        /// How many it may have.
        most: usize,
        /// When trying again may help.
        retry_after: Duration,
    },
    /// More was asked for than there ever is.
    #[error("the sandbox needs {asked} {resource}, of which there are {total} in all")]
    TooLarge {
        /// Of what.
        resource: Resource,
        /// How much was asked for.
        asked: u64,
        /// How much there is.
        total: u64,
    },
    /// The host's disk is nearly full, whoever filled it: what a new machine writes might be lost.
    #[error(transparent)]
    LowDisk(#[from] LowDisk),
    /// The machine did not start.
    #[error("the sandbox could not be started")]
    Start(#[source] StartError),
    /// The pool is being shut down.
    #[error("the pool is shutting down")]
    ShuttingDown,
}
