//! A running machine.
//!
//! ```text
//! running ⇄ paused ──snapshot──▶ frozen ──kill──▶ ended      (any) ──kill, crash──▶ ended
//! ```

use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use rustix::process::Signal;
use tokio::sync::Mutex;
use tokio::time::timeout;

use super::control::explain;
use super::snapshot::snapshot;
use super::start::Monitor;
use crate::engine::{BoxFuture, ByteStream, EngineError, Machine, Operation, SnapshotFiles};
use crate::host::process::{ExitReport, ProcessIdentity};

/// How long the monitor may take for a command on a busy host.
const COMMAND_DEADLINE: Duration = Duration::from_secs(30);
/// How long it may take to write all of a guest's memory.
const SNAPSHOT_DEADLINE: Duration = Duration::from_secs(300);

/// A virtual machine run by Firecracker.
#[derive(Debug)]
pub(super) struct FirecrackerMachine {
    monitor: Monitor,
    /// Where its snapshot goes, when it was launched for one.
    files: Option<SnapshotFiles>,
    /// Once set, the guest never runs again: it would go on from where its clones begin.
    frozen: AtomicBool,
    /// Serialises the commands that change whether the guest runs.
    commands: Mutex<()>,
}

impl FirecrackerMachine {
    pub(super) fn new(monitor: Monitor, files: Option<SnapshotFiles>) -> Self {
        Self { monitor, files, frozen: AtomicBool::new(false), commands: Mutex::new(()) }
    }

    /// Stops the whole monitor, not the guest's processors alone.
    ///
    /// Asked to resume, Firecracker 1.16 holds everything for the guest's vsock back until the guest
    /// acknowledges a reset. That is right after a restore, when the guest was told of one; after a mere
    /// pause it was not, and nothing would ever reach its agent again.
    async fn halt(&self) -> Result<(), EngineError> {
        let _turn = self.commands.lock().await;
        self.ready_for(Operation::Pause)?;
        let stopped = self.monitor.process.signal(Signal::STOP);
        stopped.map_err(|error| self.lost(Operation::Pause, error))
    }

    async fn go_on(&self) -> Result<(), EngineError> {
        const RESUME: Operation = Operation::Resume;
        let _turn = self.commands.lock().await;
        self.ready_for(RESUME)?;
        self.monitor.process.signal(Signal::CONT).map_err(|error| self.lost(RESUME, error))?;
        match timeout(COMMAND_DEADLINE, self.monitor.api.greet()).await {
            Ok(Ok(())) => Ok(()),
            Ok(Err(error)) => Err(explain(&self.monitor, RESUME, error).await),
            Err(_) => Err(EngineError::Deadline { operation: RESUME, after: COMMAND_DEADLINE }),
        }
    }

    fn ready_for(&self, operation: Operation) -> Result<(), EngineError> {
        self.alive(operation)?;
        if self.frozen.load(Ordering::Acquire) {
            return Err(EngineError::refused(operation, "the machine is frozen into a snapshot"));
        }
        Ok(())
    }

    /// The monitor is gone, and its end not reported yet.
    fn lost(&self, operation: Operation, error: std::io::Error) -> EngineError {
        self.alive(operation).err().unwrap_or(EngineError::Control { operation, source: Box::new(error) })
    }

    async fn freeze(&self) -> Result<SnapshotFiles, EngineError> {
        const SNAPSHOT: Operation = Operation::Snapshot;
        let _turn = self.commands.lock().await;
        self.alive(SNAPSHOT)?;
        let Some(files) = &self.files else {
            return Err(EngineError::refused(SNAPSHOT, "the machine was not launched to be frozen"));
        };
        if self.frozen.swap(true, Ordering::AcqRel) {
            return Err(EngineError::refused(SNAPSHOT, "the machine is frozen already"));
        }
        // It may have been stopped, and must be able to answer.
        let going = self.monitor.process.signal(Signal::CONT);
        going.map_err(|error| self.lost(SNAPSHOT, error))?;
        match timeout(SNAPSHOT_DEADLINE, snapshot(&self.monitor, files)).await {
            Ok(result) => result.map(|()| files.clone()),
            Err(_) => Err(EngineError::Deadline { operation: SNAPSHOT, after: SNAPSHOT_DEADLINE }),
        }
    }

    async fn connect(&self) -> Result<Box<dyn ByteStream>, EngineError> {
        const DIAL: Operation = Operation::Dial;
        self.alive(DIAL)?;
        tokio::select! {
            connected = self.monitor.agent.dial(&self.monitor.jail) => Ok(Box::new(connected?)),
            report = self.monitor.process.wait() => {
                Err(EngineError::Exited { operation: DIAL, report, output: self.last_words() })
            }
        }
    }

    fn alive(&self, operation: Operation) -> Result<(), EngineError> {
        match self.try_exit() {
            None => Ok(()),
            Some(report) => Err(EngineError::Exited { operation, report, output: self.last_words() }),
        }
    }
}

impl Machine for FirecrackerMachine {
    fn process(&self) -> Option<&ProcessIdentity> {
        Some(self.monitor.process.identity())
    }

    fn pause(&self) -> BoxFuture<'_, Result<(), EngineError>> {
        Box::pin(self.halt())
    }

    fn resume(&self) -> BoxFuture<'_, Result<(), EngineError>> {
        Box::pin(self.go_on())
    }

    fn snapshot(&self) -> BoxFuture<'_, Result<SnapshotFiles, EngineError>> {
        Box::pin(self.freeze())
    }

    fn dial(&self) -> BoxFuture<'_, Result<Box<dyn ByteStream>, EngineError>> {
        Box::pin(self.connect())
    }

    fn kill(&self) -> BoxFuture<'_, ExitReport> {
        Box::pin(self.monitor.process.kill())
    }

    fn wait(&self) -> BoxFuture<'_, ExitReport> {
        Box::pin(self.monitor.process.wait())
    }

    fn try_exit(&self) -> Option<ExitReport> {
        self.monitor.process.try_exit()
    }

    fn last_words(&self) -> String {
        self.monitor.words()
    }
}
