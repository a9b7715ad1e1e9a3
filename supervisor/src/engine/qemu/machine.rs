//! A running machine.
//!
//! ```text
//! running ⇄ paused ──snapshot──▶ frozen ──kill──▶ ended      (any) ──kill, crash──▶ ended
//! ```

use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use serde_json::Value;
use tokio::sync::Mutex;
use tokio::time::timeout;

use super::control::explain;
use super::snapshot::snapshot;
use super::start::Monitor;
use super::version::QemuVersion;
use crate::engine::{BoxFuture, ByteStream, EngineError, Machine, Operation, SnapshotFiles};
use crate::host::process::{ExitReport, ProcessIdentity, Tail};

/// How long the monitor may take for a command on a busy host.
const COMMAND_DEADLINE: Duration = Duration::from_secs(30);

/// A virtual machine run by QEMU.
#[derive(Debug)]
pub(super) struct QemuMachine {
    monitor: Monitor,
    version: QemuVersion,
    /// Where its snapshot goes, when it was launched for one.
    files: Option<SnapshotFiles>,
    console: Option<Tail>,
    /// Once set, the memory file belongs to the snapshot and the guest never runs again.
    frozen: AtomicBool,
    /// Serialises the commands that change whether the guest runs.
    commands: Mutex<()>,
}

impl QemuMachine {
    pub(super) fn new(
        monitor: Monitor,
        version: QemuVersion,
        files: Option<SnapshotFiles>,
        console: Option<Tail>,
    ) -> Self {
        Self { monitor, version, files, console, frozen: AtomicBool::new(false), commands: Mutex::new(()) }
    }

    async fn command(&self, operation: Operation, command: &'static str) -> Result<(), EngineError> {
        let _turn = self.commands.lock().await;
        if self.frozen.load(Ordering::Acquire) {
            return Err(EngineError::refused(operation, "the machine is frozen into a snapshot"));
        }
        match timeout(COMMAND_DEADLINE, self.monitor.qmp.execute(command, Value::Null)).await {
            Ok(Ok(_)) => Ok(()),
            Ok(Err(error)) => Err(explain(&self.monitor.process, operation, error).await),
            Err(_) => Err(EngineError::Deadline { operation, after: COMMAND_DEADLINE }),
        }
    }

    async fn freeze(&self) -> Result<SnapshotFiles, EngineError> {
        const SNAPSHOT: Operation = Operation::Snapshot;
        let _turn = self.commands.lock().await;
        let Some(files) = &self.files else {
            return Err(EngineError::refused(SNAPSHOT, "the machine was not launched to be frozen"));
        };
        if self.frozen.swap(true, Ordering::AcqRel) {
            return Err(EngineError::refused(SNAPSHOT, "the machine is frozen already"));
        }
        match timeout(COMMAND_DEADLINE, snapshot(&self.monitor, self.version, files)).await {
            Ok(result) => result.map(|()| files.clone()),
            Err(_) => Err(EngineError::Deadline { operation: SNAPSHOT, after: COMMAND_DEADLINE }),
        }
    }
}

impl Machine for QemuMachine {
    fn process(&self) -> Option<&ProcessIdentity> {
        Some(self.monitor.process.identity())
    }

    fn pause(&self) -> BoxFuture<'_, Result<(), EngineError>> {
        Box::pin(self.command(Operation::Pause, "stop"))
    }

    fn resume(&self) -> BoxFuture<'_, Result<(), EngineError>> {
        Box::pin(self.command(Operation::Resume, "cont"))
    }

    fn snapshot(&self) -> BoxFuture<'_, Result<SnapshotFiles, EngineError>> {
        Box::pin(self.freeze())
    }

    fn dial(&self) -> BoxFuture<'_, Result<Box<dyn ByteStream>, EngineError>> {
        Box::pin(async {
            if let Some(report) = self.try_exit() {
                let output = self.monitor.process.output().text();
                return Err(EngineError::Exited { operation: Operation::Dial, report, output });
            }
            Ok(Box::new(self.monitor.agent.dial().await?) as Box<dyn ByteStream>)
        })
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
        let console = self.console.as_ref().map(Tail::text).unwrap_or_default();
        let monitor = self.monitor.process.output().text();
        match (console.is_empty(), monitor.is_empty()) {
            (true, _) => monitor,
            (false, true) => console,
            (false, false) => format!("{console}\n{monitor}"),
        }
    }
}
