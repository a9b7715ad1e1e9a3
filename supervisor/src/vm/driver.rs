//! The task that owns a running machine. Everyone else sends it requests and watches the state it publishes.
//!
//! ```text
//! running ⇄ paused
//!    │         │  stop, or the last handle dropped ──▶ ended: stopped
//!    └─────────┴─ the monitor dies ──────────────────▶ ended: lost
//! ```

use tokio::sync::{mpsc, oneshot, watch};
use tracing::Instrument as _;

use super::id::VmId;
use super::phases::release;
use super::workdir::WorkDir;
use crate::engine::{EngineError, Machine, SnapshotFiles};
use crate::host::cgroup::{Cgroup, CgroupError, CpuQuota, CpuWeight, Usage};
use crate::host::process::ExitReport;

/// Requests that may wait for the driver.
const BACKLOG: usize = 8;

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

/// What a driver can be asked.
pub(super) enum Request {
    Pause(oneshot::Sender<Result<(), EngineError>>),
    Resume(oneshot::Sender<Result<(), EngineError>>),
    Snapshot(oneshot::Sender<Result<SnapshotFiles, EngineError>>),
    Usage(oneshot::Sender<Usage>),
    LastWords(oneshot::Sender<String>),
    RaiseCpuWeight(Option<CpuQuota>, oneshot::Sender<Result<(), CgroupError>>),
    Stop,
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
                    // Whoever asked may have gone.
                    let _ = reply.send(self.cgroup.usage());
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
            }
        };
        let Self { machine, cgroup, work_dir, state, .. } = self;
        drop(machine);
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
        tracing::warn!(%report, out_of_memory, "the machine was lost");
        Death::Lost { report, out_of_memory, last_words }
    }
}
