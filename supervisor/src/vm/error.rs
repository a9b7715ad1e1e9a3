//! Why a machine did not come to life.

use std::fmt;
use std::io;
use std::path::PathBuf;

use crate::agent::{AgentError, ConnectError};
use crate::engine::{EngineError, Operation};
use crate::host::cgroup::CgroupError;
use crate::host::scratch::ScratchError;

/// The phases of a start, as errors name them.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum StartStage {
    /// Making the work directory, the control group and the scratch disk.
    Reserve,
    /// Booting or restoring.
    Machine,
    /// Reaching the agent.
    Connect,
    /// Making the guest a sandbox of its own.
    Gate,
}

impl fmt::Display for StartStage {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Reserve => "reserving resources",
            Self::Machine => "starting the machine",
            Self::Connect => "reaching the agent",
            Self::Gate => "opening the restore gate",
        })
    }
}

/// A start that failed. Everything made for it is gone again.
#[derive(Debug, thiserror::Error)]
pub enum StartError {
    /// No random bytes could be had.
    #[error("no random bytes could be had")]
    Random(#[source] getrandom::Error),
    /// Every user that monitors may run as has one.
    #[error("there is no user left for the monitor: every one of the range runs something")]
    NoUser,
    /// A file of the machine's could not be made.
    #[error("cannot {operation} {}", path.display())]
    File {
        /// What was tried.
        operation: &'static str,
        /// The file.
        path: PathBuf,
        /// What the kernel said.
        #[source]
        source: io::Error,
    },
    /// The control group could not be made, or limits that are demanded cannot be enforced.
    #[error("the machine's limits could not be set")]
    Cgroup(#[source] CgroupError),
    /// The scratch disk could not be made.
    #[error("the scratch disk could not be made")]
    Scratch(#[source] ScratchError),
    /// The engine failed.
    #[error("the machine could not be started")]
    Engine(#[source] EngineError),
    /// The agent did not answer.
    #[error("the agent could not be reached{}", said(.last_words))]
    Connect {
        /// Why.
        #[source]
        source: ConnectError,
        /// The end of what the guest and its monitor printed.
        last_words: String,
    },
    /// The agent answered but the gate did not open.
    #[error("the restore gate did not open{}", said(.last_words))]
    Gate {
        /// Why.
        #[source]
        source: AgentError,
        /// The end of what the guest and its monitor printed.
        last_words: String,
    },
}

impl StartError {
    /// The phase that failed.
    #[must_use]
    pub fn stage(&self) -> StartStage {
        match self {
            Self::Random(_) | Self::NoUser | Self::File { .. } | Self::Cgroup(_) | Self::Scratch(_) => {
                StartStage::Reserve
            }
            Self::Engine(_) => StartStage::Machine,
            Self::Connect { .. } => StartStage::Connect,
            Self::Gate { .. } => StartStage::Gate,
        }
    }

    /// Whether the guest gave no answer in its time. One that refused, or died, has given one.
    pub(super) fn is_silence(&self) -> bool {
        match self {
            Self::Engine(error) => {
                matches!(error, EngineError::Deadline { operation: Operation::Dial, .. })
            }
            Self::Connect { source, .. } => source.is_silence(),
            Self::Gate { source, .. } => matches!(source, AgentError::Silent { .. }),
            Self::Random(_) | Self::NoUser | Self::File { .. } | Self::Cgroup(_) | Self::Scratch(_) => false,
        }
    }
}

fn said(last_words: &str) -> String {
    match last_words.lines().rev().find(|line| !line.trim().is_empty()) {
        Some(line) => format!(" (the guest last said {:?})", line.chars().take(200).collect::<String>()),
        None => String::new(),
    }
}
