//! A running machine.
//!
//! ```text
//! running ⇄ paused ──snapshot──▶ frozen ──kill──▶ ended      (any) ──kill, crash──▶ ended
//! ```

use std::os::fd::OwnedFd;
use std::sync::PoisonError;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use serde_json::Value;
use tokio::net::UnixStream;
use tokio::sync::Mutex;
use tokio::time::timeout;

use super::control::{explain, words};
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
    line: std::sync::Mutex<Line>,
}

/// The agent's line around a snapshot. A guest that is frozen with a host on its line, and wakes up with a
/// host on its line, notices no change and waits for nothing but the first byte: no hang-up to handle, no
/// port to watch anew, on the way to the first answer.
#[derive(Debug, Default)]
struct Line {
    /// Connected before the monitor was started; the first to dial gets it.
    early: Option<UnixStream>,
    /// Keeps the last connection of a machine that is to be frozen open, whoever closes theirs.
    held: Option<OwnedFd>,
}

impl QemuMachine {
    pub(super) fn new(
        monitor: Monitor,
        version: QemuVersion,
        files: Option<SnapshotFiles>,
        console: Option<Tail>,
        early: Option<UnixStream>,
    ) -> Self {
        let line = std::sync::Mutex::new(Line { early, held: None });
        let (frozen, commands) = (AtomicBool::new(false), Mutex::new(()));
        Self { monitor, version, files, console, frozen, commands, line }
    }

    async fn connect(&self) -> Result<UnixStream, EngineError> {
        let early = {
            let mut line = self.line.lock().unwrap_or_else(PoisonError::into_inner);
            // One connection at a time: the next is not served before this one is gone.
            line.held = None;
            line.early.take()
        };
        let stream = match early {
            Some(stream) => stream,
            None => self.monitor.agent.dial().await?,
        };
        if self.files.is_some() {
            let held = nix::unistd::dup(&stream);
            self.line.lock().unwrap_or_else(PoisonError::into_inner).held = held.ok();
        }
        Ok(stream)
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
                let output = words(&self.monitor.process);
                return Err(EngineError::Exited { operation: Operation::Dial, report, output });
            }
            Ok(Box::new(self.connect().await?) as Box<dyn ByteStream>)
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
        let monitor = words(&self.monitor.process);
        match (console.is_empty(), monitor.is_empty()) {
            (true, _) => monitor,
            (false, true) => console,
            (false, false) => format!("{console}\n{monitor}"),
        }
    }
}
