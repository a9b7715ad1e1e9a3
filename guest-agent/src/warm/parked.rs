//! A process that waits for an execution.

use std::os::fd::OwnedFd;

use tokio::sync::oneshot;

use crate::exec::child::Child;
use crate::exec::stdio::AgentEnds;
use crate::reaper::Exit;
use crate::warm::line::Line;
use crate::warm::request::Footing;

/// One of them. Dropping it hangs up, which ends it.
#[derive(Debug)]
pub struct Parked {
    /// Its process id.
    pub pid: i32,
    /// A handle that never means another process.
    pub pidfd: OwnedFd,
    /// Tells of its end.
    pub exit: oneshot::Receiver<Exit>,
    /// How the agent talks to it.
    pub line: Line,
    /// What it has been prepared for.
    pub prepared: Option<Prepared>,
}

/// What a parked process is already.
#[derive(Debug)]
pub struct Prepared {
    /// The agent's ends of what it writes to.
    pub ends: AgentEnds,
    /// Where and as whom it is to run.
    pub footing: Footing,
}

impl Parked {
    /// Whether it still waits, as far as the agent knows.
    pub fn waits(&mut self) -> bool {
        matches!(self.exit.try_recv(), Err(oneshot::error::TryRecvError::Empty))
    }

    /// Makes it the execution's process.
    pub fn into_child(self) -> (Child, oneshot::Receiver<Exit>) {
        (Child { pid: self.pid, pidfd: self.pidfd, verdict: self.line.into_verdict() }, self.exit)
    }
}
