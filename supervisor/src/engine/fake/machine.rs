//! A machine without a monitor. Its end, its pauses and its connections are values.

use std::fmt;
use std::fs;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use tokio::io::duplex;
use tokio::sync::watch;
use tokio::time::timeout;

use super::engine::{Guest, STATE_MAGIC};
use super::script::Script;
use crate::engine::{BoxFuture, ByteStream, EngineError, Machine, Operation, SnapshotFiles};
use crate::host::process::{ExitReport, ProcessIdentity};

/// How long a command may take, as in the other engines.
const COMMAND_DEADLINE: Duration = Duration::from_secs(30);
/// Bytes in flight in one direction of a connection.
const STREAM_BUFFER: usize = 64 * 1024;

/// A handle with which a test looks at a machine, or ends it as a crash would.
#[derive(Debug, Clone)]
pub struct FakeControl {
    exit: watch::Sender<Option<ExitReport>>,
    paused: Arc<AtomicBool>,
}

impl FakeControl {
    /// Ends the machine as if its monitor had been killed.
    pub fn crash(&self) {
        self.end(ExitReport::Signaled { signal: 9 });
    }

    /// Whether the machine has not ended.
    #[must_use]
    pub fn is_alive(&self) -> bool {
        self.exit.borrow().is_none()
    }

    /// Whether its processors are stopped.
    #[must_use]
    pub fn is_paused(&self) -> bool {
        self.paused.load(Ordering::Acquire)
    }

    fn end(&self, report: ExitReport) {
        self.exit.send_if_modified(|exit| exit.is_none() && exit.replace(report).is_none());
    }
}

/// A machine of the fake engine.
pub(super) struct FakeMachine {
    control: FakeControl,
    guest: Guest,
    script: Arc<Script>,
    files: Option<SnapshotFiles>,
    frozen: AtomicBool,
}

impl fmt::Debug for FakeMachine {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("FakeMachine").field("control", &self.control).finish_non_exhaustive()
    }
}

impl FakeMachine {
    pub(super) fn new(guest: Guest, script: Arc<Script>, files: Option<SnapshotFiles>) -> Self {
        let control = FakeControl { exit: watch::Sender::new(None), paused: Arc::default() };
        Self { control, guest, script, files, frozen: AtomicBool::new(false) }
    }

    pub(super) fn control(&self) -> FakeControl {
        self.control.clone()
    }

    /// Plays the script and refuses what a machine that has ended or is frozen cannot do.
    async fn begin(&self, operation: Operation) -> Result<(), EngineError> {
        let done = || match operation {
            Operation::Pause => self.control.paused.store(true, Ordering::Release),
            Operation::Resume => self.control.paused.store(false, Ordering::Release),
            _ => {}
        };
        let play = self.script.play(operation, || self.control.crash(), done);
        match operation {
            // Whoever dials waits as long as it likes.
            Operation::Dial => play.await?,
            _ => {
                let late = EngineError::Deadline { operation, after: COMMAND_DEADLINE };
                timeout(COMMAND_DEADLINE, play).await.unwrap_or(Err(late))?;
            }
        }
        if let Some(report) = self.try_exit() {
            return Err(EngineError::Exited { operation, report, output: String::new() });
        }
        if self.frozen.load(Ordering::Acquire) && operation != Operation::Dial {
            return Err(EngineError::refused(operation, "the machine is frozen into a snapshot"));
        }
        Ok(())
    }

    async fn freeze(&self) -> Result<SnapshotFiles, EngineError> {
        const SNAPSHOT: Operation = Operation::Snapshot;
        self.begin(SNAPSHOT).await?;
        let Some(files) = &self.files else {
            return Err(EngineError::refused(SNAPSHOT, "the machine was not launched to be frozen"));
        };
        self.frozen.store(true, Ordering::Release);
        self.control.paused.store(true, Ordering::Release);
        fs::write(&files.state, STATE_MAGIC).map_err(EngineError::file(SNAPSHOT, &files.state))?;
        Ok(files.clone())
    }
}

impl Machine for FakeMachine {
    fn process(&self) -> Option<&ProcessIdentity> {
        None
    }

    fn pause(&self) -> BoxFuture<'_, Result<(), EngineError>> {
        Box::pin(async {
            self.begin(Operation::Pause).await?;
            self.control.paused.store(true, Ordering::Release);
            Ok(())
        })
    }

    fn resume(&self) -> BoxFuture<'_, Result<(), EngineError>> {
        Box::pin(async {
            self.begin(Operation::Resume).await?;
            self.control.paused.store(false, Ordering::Release);
            Ok(())
        })
    }

    fn snapshot(&self) -> BoxFuture<'_, Result<SnapshotFiles, EngineError>> {
        Box::pin(self.freeze())
    }

    fn dial(&self) -> BoxFuture<'_, Result<Box<dyn ByteStream>, EngineError>> {
        Box::pin(async {
            self.begin(Operation::Dial).await?;
            let (host, mut wire_host) = duplex(STREAM_BUFFER);
            let (guest, mut wire_guest) = duplex(STREAM_BUFFER);
            (self.guest)(guest);
            // A machine that ends takes its connections with it.
            let mut ended = self.control.exit.subscribe();
            tokio::spawn(async move {
                tokio::select! {
                    _ = tokio::io::copy_bidirectional(&mut wire_host, &mut wire_guest) => {}
                    _ = ended.wait_for(Option::is_some) => {}
                }
            });
            Ok(Box::new(host) as Box<dyn ByteStream>)
        })
    }

    fn kill(&self) -> BoxFuture<'_, ExitReport> {
        self.control.crash();
        self.wait()
    }

    fn wait(&self) -> BoxFuture<'_, ExitReport> {
        let mut exit = self.control.exit.subscribe();
        Box::pin(async move {
            match exit.wait_for(Option::is_some).await {
                Ok(report) => report.unwrap_or(ExitReport::Unknown),
                Err(_) => ExitReport::Unknown,
            }
        })
    }

    fn try_exit(&self) -> Option<ExitReport> {
        *self.control.exit.borrow()
    }

    fn last_words(&self) -> String {
        String::new()
    }
}

impl Drop for FakeMachine {
    fn drop(&mut self) {
        self.control.crash();
    }
}
