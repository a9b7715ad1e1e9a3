//! What can go wrong between the supervisor and a virtual machine monitor.

use std::fmt;
use std::io;
use std::path::{Path, PathBuf};
use std::time::Duration;

use crate::host::process::{ExitReport, SpawnError};

/// The operations of an engine and its machines, as errors and the fake engine name them.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Operation {
    /// Booting a machine.
    Launch,
    /// Starting a monitor that waits for a snapshot.
    Prespawn,
    /// Loading a snapshot.
    Load,
    /// Stopping the guest's processors.
    Pause,
    /// Letting them run.
    Resume,
    /// Freezing the machine into a snapshot.
    Snapshot,
    /// Connecting to the agent.
    Dial,
}

impl fmt::Display for Operation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Launch => "launch",
            Self::Prespawn => "prespawn",
            Self::Load => "load",
            Self::Pause => "pause",
            Self::Resume => "resume",
            Self::Snapshot => "snapshot",
            Self::Dial => "dial",
        })
    }
}

/// An operation of an engine that failed. The machine is of no further use after any of these but
/// [`EngineError::Refused`].
#[derive(Debug, thiserror::Error)]
pub enum EngineError {
    /// The monitor could not be started.
    #[error("{operation}: the monitor could not be started")]
    Spawn {
        /// The operation.
        operation: Operation,
        /// Why.
        #[source]
        source: SpawnError,
    },
    /// The monitor ended by itself.
    #[error("{operation}: the monitor {report}{}", last_words(.output))]
    Exited {
        /// The operation it ended in.
        operation: Operation,
        /// How.
        report: ExitReport,
        /// The end of what it printed.
        output: String,
    },
    /// The monitor answered with an error, or not in a way that makes sense.
    #[error("{operation}: the monitor's control channel failed")]
    Control {
        /// The operation.
        operation: Operation,
        /// The engine's own error.
        #[source]
        source: Box<dyn std::error::Error + Send + Sync>,
    },
    /// It took too long.
    #[error("{operation}: gave up after {} ms", after.as_millis())]
    Deadline {
        /// The operation.
        operation: Operation,
        /// How long it had.
        after: Duration,
    },
    /// A file of the machine or of its snapshot could not be used.
    #[error("{operation}: cannot use {}", path.display())]
    File {
        /// The operation.
        operation: Operation,
        /// The file.
        path: PathBuf,
        /// What the kernel said.
        #[source]
        source: io::Error,
    },
    /// The machine is not in a state, or was not made, for this. It goes on as it was.
    #[error("{operation}: {reason}")]
    Refused {
        /// The operation.
        operation: Operation,
        /// Why.
        reason: String,
    },
}

impl EngineError {
    pub(super) fn file(operation: Operation, path: &Path) -> impl FnOnce(io::Error) -> Self + use<> {
        let path = path.to_owned();
        move |source| Self::File { operation, path, source }
    }

    pub(super) fn refused(operation: Operation, reason: impl Into<String>) -> Self {
        Self::Refused { operation, reason: reason.into() }
    }
}

fn last_words(output: &str) -> String {
    match output.lines().rev().find(|line| !line.trim().is_empty()) {
        Some(line) => format!(", saying {:?}", line.chars().take(400).collect::<String>()),
        None => String::new(),
    }
}
