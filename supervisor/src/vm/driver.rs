//! The task that owns a running machine. Everyone else sends it requests and watches the state it publishes.
//!
//! ```text
//! running ⇄ paused
//!    │         │  stop, or the last handle dropped ──▶ ended: stopped
//!    └─────────┴─ the monitor dies ──────────────────▶ ended: lost
//! ```

use std::fmt;
use std::io;

use tokio::sync::{mpsc, oneshot, watch};
use tracing::Instrument as _;

use super::id::VmId;
use super::kept::KeptDisk;
use super::phases::release;
use super::scratch::SCRATCH;
use super::workdir::WorkDir;
use crate::engine::{EngineError, Machine, SnapshotFiles};
use crate::host::cgroup::{Cgroup, CgroupError, CpuQuota, CpuWeight, Usage};
use crate::host::process::ExitReport;
use crate::host::scratch;
use crate::host::untrusted::printable;

/// Requests that may wait for the driver.
const BACKLOG: usize = 8;
/// What a kernel prints when it gives up, before the reason.
const PANIC: &str = "Kernel panic - not syncing: ";
/// Bytes that a caller is shown of what a guest printed.
const MAX_SHOWN: usize = 200;
/// Bytes of it in the log.
const MAX_LOGGED: usize = 4096;

/// Where a machine is in its life.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum VmState {
    /// The guest runs.
    Running,
    /// The guest's processors stand still.
    Paused,
    /// It is gone.
    Ended(Death),
}

/// How a machine came to its end.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Death {
    /// It was stopped by whoever had it.
    Stopped,
    /// Its monitor died under it.
    Lost {
        /// How the monitor ended.
        report: ExitReport,
        /// The host's memory limit for this machine ended it.
        out_of_memory: bool,
        /// The end of what guest and monitor printed.
        last_words: String,
    },
}

impl fmt::Display for Death {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self::Lost { report, out_of_memory, last_words } = self else {
            return f.write_str("its machine was stopped");
        };
        if *out_of_memory {
            return write!(f, "the machine ran into its memory limit on the host and {report}");
        }
        match last_words.lines().rev().find_map(|line| line.split_once(PANIC)) {
            Some((_, why)) => {
                write!(f, "the kernel of its machine panicked: {}", printable(why.trim(), MAX_SHOWN))
            }
            None => write!(f, "the monitor of its machine {report}"),
        }
    }
}

/// What a machine has used, or has now.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct MachineUsage {
    /// Its control group.
    pub group: Usage,
    /// Bytes that its scratch disk takes on the host; what was removed there may still count.
    pub disk_bytes: Option<u64>,
}

/// What a driver can be asked.
pub(super) enum Request {
    Pause(oneshot::Sender<Result<(), EngineError>>),
    Resume(oneshot::Sender<Result<(), EngineError>>),
    Snapshot(oneshot::Sender<Result<SnapshotFiles, EngineError>>),
    Usage(oneshot::Sender<MachineUsage>),
    LastWords(oneshot::Sender<String>),
    RaiseCpuWeight(Option<CpuQuota>, oneshot::Sender<Result<(), CgroupError>>),
    Stop,
    /// The disk outlives the machine.
    StopKeepingDisk(oneshot::Sender<io::Result<KeptDisk>>),
}

/// The handle's end of a driver.
#[derive(Debug, Clone)]
pub(super) struct DriverHandle {
    pub(super) requests: mpsc::Sender<Request>,
    pub(super) state: watch::Receiver<VmState>,
}

/// Owns a machine and what it stands on.
pub(super) struct Driver {
    machine: Box<dyn Machine>,
    cgroup: Cgroup,
    work_dir: WorkDir,
    requests: mpsc::Receiver<Request>,
    state: watch::Sender<VmState>,
}

impl Driver {
    /// Starts the task.
    pub(super) fn start(
        id: VmId,
        machine: Box<dyn Machine>,
        cgroup: Cgroup,
        work_dir: WorkDir,
    ) -> DriverHandle {
        let (sender, requests) = mpsc::channel(BACKLOG);
        let (state, watched) = watch::channel(VmState::Running);
        let driver = Self { machine, cgroup, work_dir, requests, state };
        tokio::spawn(driver.run().instrument(tracing::info_span!("vm", %id)));
        DriverHandle { requests: sender, state: watched }
    }

    async fn run(mut self) {
        let mut keeper = None;
        let death = loop {
            let request = tokio::select! {
                request = self.requests.recv() => request,
                report = self.machine.wait() => break self.lost(report),
            };
            match request {
                Some(Request::Pause(reply)) => {
                    let paused = self.machine.pause().await;
                    self.moved(VmState::Paused, paused, reply);
                }
                Some(Request::Resume(reply)) => {
                    let resumed = self.machine.resume().await;
                    self.moved(VmState::Running, resumed, reply);
                }
                Some(Request::Snapshot(reply)) => {
                    let frozen = self.machine.snapshot().await;
                    self.moved(VmState::Paused, frozen, reply);
                }
                Some(Request::Usage(reply)) => {
                    let disk_bytes = scratch::held(&self.work_dir.path().join(SCRATCH)).ok();
                    // Whoever asked may have gone.
                    let _ = reply.send(MachineUsage { group: self.cgroup.usage(), disk_bytes });
                }
                Some(Request::LastWords(reply)) => {
                    let _ = reply.send(self.machine.last_words());
                }
                Some(Request::RaiseCpuWeight(cpu, reply)) => {
                    let full = self.cgroup.set_cpu_weight(CpuWeight::InUse);
                    let _ =
                        reply.send(full.and_then(|()| cpu.map_or(Ok(()), |cpu| self.cgroup.set_cpu(cpu))));
                }
                Some(Request::Stop) | None => {
                    // A clone has nothing to save: there is one step, and it cannot be refused.
                    self.machine.kill().await;
                    break Death::Stopped;
                }
                Some(Request::StopKeepingDisk(reply)) => {
                    self.machine.kill().await;
                    keeper = Some(reply);
                    break Death::Stopped;
                }
            }
        };
        let Self { machine, cgroup, work_dir, state, .. } = self;
        drop(machine);
        if let Some(reply) = keeper {
            // Whoever has gone drops the disk, which removes it.
            let _ = reply.send(KeptDisk::take(work_dir.path()).await);
        }
        release(cgroup, work_dir).await;
        // Published last: who sees the end finds nothing left.
        state.send_replace(VmState::Ended(death));
    }

    /// Publishes where the machine now is and answers.
    fn moved<T>(
        &self,
        to: VmState,
        done: Result<T, EngineError>,
        reply: oneshot::Sender<Result<T, EngineError>>,
    ) {
        if done.is_ok() {
            self.state.send_replace(to);
        }
        let _ = reply.send(done);
    }

    fn lost(&self, report: ExitReport) -> Death {
        let out_of_memory = self.cgroup.usage().oom_kills.is_some_and(|kills| kills > 0);
        let last_words = self.machine.last_words();
        let from = last_words.floor_char_boundary(last_words.len().saturating_sub(MAX_LOGGED));
        let shown = printable(&last_words[from..], 2 * MAX_LOGGED);
        tracing::warn!(%report, out_of_memory, last_words = shown, "the machine was lost");
        Death::Lost { report, out_of_memory, last_words }
    }
}

#[cfg(test)]
mod tests {
    //! What is said of a machine's end.

    use super::*;

    fn lost(out_of_memory: bool, last_words: &str) -> String {
        let report = ExitReport::Exited { code: 0 };
        Death::Lost { report, out_of_memory, last_words: last_words.to_owned() }.to_string()
    }

    #[test]
    fn a_panic_of_the_guest_is_told_as_one_in_bounded_words() {
        assert_eq!(lost(false, "hello"), "the monitor of its machine exited with code 0");
        let console = "[   1.5] Kernel panic - not syncing: Attempted to kill init! exitcode=0x0000000b\r\n[   1.6] CPU: 0";
        assert_eq!(
            lost(false, console),
            "the kernel of its machine panicked: Attempted to kill init! exitcode=0x0000000b"
        );
        let hostile = lost(false, &format!("{PANIC}\u{1b}[2J{}", "x".repeat(100_000)));
        assert!(hostile.len() < 300 && !hostile.contains('\u{1b}'), "{hostile}");
        assert!(
            lost(true, console).starts_with("the machine ran into its memory limit"),
            "the host knows better"
        );
    }
}
