//! A running child: watched through its pidfd, stopped by escalation, never left as a zombie.
//!
//! ```text
//! running ──(exits, is killed)──▶ reaped; the report stays readable for every waiter
//!    └──(dropped)──▶ killed ──▶ reaped in the background
//! ```
//!
//! Owned by an engine's machine. One background task alone calls `waitid`.

use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::time::Duration;

use rustix::process::{Signal, WaitId, WaitIdOptions, pidfd_send_signal, waitid};
use tokio::io::unix::AsyncFd;
use tokio::net::unix::pipe;
use tokio::sync::watch;
use tokio::time::timeout;

use super::exit::ExitReport;
use super::identity::ProcessIdentity;
use super::namespace_set::NamespaceSet;
use super::spawn::reap_later;
use super::tail::Tail;
use crate::host::readable::watch_readable;

/// How much of a child's own messages is kept.
const OUTPUT_TAIL_BYTES: usize = 16 * 1024;

/// One rung of a stop: a signal and the time it gets to work.
#[derive(Debug, Clone, Copy)]
pub struct StopStep {
    /// The signal sent.
    pub signal: Signal,
    /// How long to wait for the process to end before the next rung.
    pub grace: Duration,
}

/// A child process.
#[derive(Debug)]
pub struct Process {
    identity: ProcessIdentity,
    pidfd: OwnedFd,
    pub(super) exit: watch::Receiver<Option<ExitReport>>,
    output: Tail,
}

impl Process {
    /// Starts watching a fresh child, and the namespaces it may be in. On failure the child is killed and reaped.
    pub(super) fn watch(
        pid: u32,
        pidfd: OwnedFd,
        output: OwnedFd,
        namespaces: Option<NamespaceSet>,
    ) -> io::Result<Self> {
        let watched = pidfd.try_clone().and_then(watch_readable);
        let watched = match watched {
            Ok(watched) => watched,
            Err(error) => {
                reap_later(pidfd);
                return Err(error);
            }
        };
        let unreaped = Unreaped { pidfd: Some(watched) };
        let identity = ProcessIdentity::of(pid)?;
        let tail = Tail::new(OUTPUT_TAIL_BYTES);
        let reader = pipe::Receiver::from_owned_fd(output)?;
        let draining = tokio::spawn(tail.clone().drain(reader));
        let (report, exit) = watch::channel(None);
        tokio::spawn(async move {
            let ended = unreaped.reap().await;
            if let Some(namespaces) = namespaces {
                // Whatever it had started there ends before its own end is told.
                namespaces.close().await;
            }
            // The last words of a dead child are in the pipe already; a grandchild that holds it
            // open must not delay the report.
            let _ = timeout(Duration::from_millis(50), draining).await;
            let _ = report.send(Some(ended));
        });
        Ok(Self { identity, pidfd, exit, output: tail })
    }

    /// Pid and start time, for the record that survives the supervisor.
    #[must_use]
    pub fn identity(&self) -> &ProcessIdentity {
        &self.identity
    }

    /// The last of what the process wrote to its standard output and error.
    #[must_use]
    pub fn output(&self) -> &Tail {
        &self.output
    }

    /// How it ended, if it has.
    #[must_use]
    pub fn try_exit(&self) -> Option<ExitReport> {
        *self.exit.borrow()
    }

    /// Waits for the end. Any number of callers may wait, before or after it.
    pub async fn wait(&self) -> ExitReport {
        let mut exit = self.exit.clone();
        match exit.wait_for(Option::is_some).await {
            Ok(report) => report.unwrap_or(ExitReport::Unknown),
            Err(_) => ExitReport::Unknown,
        }
    }

    /// Sends a signal; a process that has ended already is not an error.
    ///
    /// # Errors
    /// When the kernel refuses the signal.
    pub fn signal(&self, signal: Signal) -> io::Result<()> {
        match pidfd_send_signal(&self.pidfd, signal) {
            Ok(()) | Err(rustix::io::Errno::SRCH) => Ok(()),
            Err(error) => Err(error.into()),
        }
    }

    /// Kills it and waits until it is reaped.
    pub async fn kill(&self) -> ExitReport {
        let _ = self.signal(Signal::KILL);
        self.wait().await
    }

    /// Tries each step in turn until the process has ended; kills it after the last.
    pub async fn stop(&self, steps: &[StopStep]) -> ExitReport {
        for step in steps {
            let _ = self.signal(step.signal);
            if let Ok(report) = timeout(step.grace, self.wait()).await {
                return report;
            }
        }
        self.kill().await
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        if self.try_exit().is_none() {
            // The watching task, or the spawner thread in its place, reaps it.
            let _ = self.signal(Signal::KILL);
        }
    }
}

/// The duty to reap a child, which passes to the spawner thread when the runtime goes away.
struct Unreaped {
    pidfd: Option<AsyncFd<OwnedFd>>,
}

impl Unreaped {
    async fn reap(mut self) -> ExitReport {
        let Some(pidfd) = &self.pidfd else { return ExitReport::Unknown };
        if pidfd.readable().await.is_err() {
            return ExitReport::Unknown;
        }
        let status = waitid(WaitId::PidFd(pidfd.get_ref().as_fd()), WaitIdOptions::EXITED);
        self.pidfd = None;
        match status {
            Ok(Some(status)) => match (status.exit_status(), status.terminating_signal()) {
                (Some(code), _) => ExitReport::Exited { code },
                (None, Some(signal)) => ExitReport::Signaled { signal },
                (None, None) => ExitReport::Unknown,
            },
            Ok(None) | Err(_) => ExitReport::Unknown,
        }
    }
}

impl Drop for Unreaped {
    fn drop(&mut self) {
        if let Some(pidfd) = self.pidfd.take() {
            reap_later(pidfd.into_inner());
        }
    }
}
