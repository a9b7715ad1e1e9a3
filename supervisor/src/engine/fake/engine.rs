//! The engine: makes machines whose guest is the test's own function.

use std::fmt;
use std::fs;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use tokio::io::DuplexStream;
use tokio::time::timeout;

use super::machine::{FakeControl, FakeMachine};
use super::script::{Fault, Script};
use crate::engine::{
    BootSpec, BoxFuture, Capabilities, Engine, EngineError, EngineIdentity, EngineKind, Hardware, Operation,
    PrespawnedMonitor, RestoreSpec, SnapshotFiles, Started, Stopwatch,
};
use crate::host::cpu::CpuIdentity;
use crate::host::process::ProcessIdentity;

/// What a state file of this engine begins with.
pub(super) const STATE_MAGIC: &[u8] = b"rekindle fake state\n";

/// What a guest does with a connection.
pub(super) type Guest = Arc<dyn Fn(DuplexStream) + Send + Sync>;

/// An engine for tests.
#[derive(Clone)]
pub struct FakeEngine {
    identity: EngineIdentity,
    capabilities: Capabilities,
    guest: Guest,
    script: Arc<Script>,
    machines: Arc<Mutex<Vec<FakeControl>>>,
}

impl fmt::Debug for FakeEngine {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("FakeEngine").field("script", &self.script).finish_non_exhaustive()
    }
}

impl FakeEngine {
    /// An engine whose guests handle each connection with `guest`, which spawns what it needs.
    #[must_use]
    pub fn new(guest: impl Fn(DuplexStream) + Send + Sync + 'static) -> Self {
        let cpu = CpuIdentity {
            vendor: "fake".into(),
            name: "fake".into(),
            signature: "0/0/0".into(),
            features: String::new(),
        };
        Self {
            identity: EngineIdentity {
                engine: EngineKind::Fake,
                version: "1".into(),
                accelerator: "none".into(),
                cpu,
            },
            capabilities: Capabilities {
                hardware_accelerated: false,
                memory_overhead_mib: 0,
                thread_overhead: 0,
            },
            guest: Arc::new(guest),
            script: Arc::default(),
            machines: Arc::default(),
        }
    }

    /// Orders a fault for the next call of `operation` that has none ordered yet.
    pub fn inject(&self, operation: Operation, fault: Fault) {
        self.script.inject(operation, fault);
    }

    /// Takes back all faults that were ordered and have not happened; how many there were.
    pub fn forget_faults(&self) -> usize {
        self.script.forget()
    }

    /// Every operation called so far, in order.
    #[must_use]
    pub fn log(&self) -> Vec<Operation> {
        self.script.log()
    }

    /// The machines made so far, oldest first.
    #[must_use]
    pub fn machines(&self) -> Vec<FakeControl> {
        self.machines.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    fn machine(&self, files: Option<SnapshotFiles>) -> FakeMachine {
        let machine = FakeMachine::new(Arc::clone(&self.guest), Arc::clone(&self.script), files);
        self.machines.lock().unwrap_or_else(PoisonError::into_inner).push(machine.control());
        machine
    }

    async fn boot(&self, spec: BootSpec) -> Result<Started, EngineError> {
        let mut watch = Stopwatch::start();
        check(Operation::Launch, &spec.hardware)?;
        fs::metadata(&spec.kernel).map_err(EngineError::file(Operation::Launch, &spec.kernel))?;
        self.script.play(Operation::Launch, || {}, || {}).await?;
        let files = spec.snapshot_dir.as_deref().map(SnapshotFiles::in_dir);
        if let Some(files) = &files {
            let file = fs::File::create_new(&files.memory);
            file.and_then(|file| file.set_len(u64::from(spec.hardware.memory_mib) << 20))
                .map_err(EngineError::file(Operation::Launch, &files.memory))?;
        }
        watch.stage("spawn");
        Ok(Started { machine: Box::new(self.machine(files)), timings: watch.finish() })
    }

    async fn wait(&self, spec: RestoreSpec) -> Result<FakePrespawned, EngineError> {
        const PRESPAWN: Operation = Operation::Prespawn;
        let mut watch = Stopwatch::start();
        check(PRESPAWN, &spec.hardware)?;
        let memory = &spec.snapshot.memory;
        let length = fs::metadata(memory).map_err(EngineError::file(PRESPAWN, memory))?.len();
        if length != u64::from(spec.hardware.memory_mib) << 20 {
            return Err(EngineError::refused(PRESPAWN, "the memory file has another size than the machine"));
        }
        let state = &spec.snapshot.state;
        let state = fs::read(state).map_err(EngineError::file(PRESPAWN, state))?;
        self.script.play(PRESPAWN, || {}, || {}).await?;
        watch.stage("spawn");
        let (machine, script, deadline) = (self.machine(None), Arc::clone(&self.script), spec.home.deadline);
        Ok(FakePrespawned { machine, script, state, deadline, watch })
    }
}

/// A real monitor opens its disks before anything else.
fn check(operation: Operation, hardware: &Hardware) -> Result<(), EngineError> {
    for path in [&hardware.image, &hardware.scratch] {
        fs::metadata(path).map_err(EngineError::file(operation, path))?;
    }
    Ok(())
}

impl Engine for FakeEngine {
    fn identity(&self) -> &EngineIdentity {
        &self.identity
    }

    fn capabilities(&self) -> &Capabilities {
        &self.capabilities
    }

    fn launch(&self, spec: BootSpec) -> BoxFuture<'_, Result<Started, EngineError>> {
        let after = spec.home.deadline;
        Box::pin(async move {
            timeout(after, self.boot(spec))
                .await
                .unwrap_or(Err(EngineError::Deadline { operation: Operation::Launch, after }))
        })
    }

    fn prespawn(&self, spec: RestoreSpec) -> BoxFuture<'_, Result<Box<dyn PrespawnedMonitor>, EngineError>> {
        let after = spec.home.deadline;
        Box::pin(async move {
            match timeout(after, self.wait(spec)).await {
                Ok(prepared) => Ok(Box::new(prepared?) as Box<dyn PrespawnedMonitor>),
                Err(_) => Err(EngineError::Deadline { operation: Operation::Prespawn, after }),
            }
        })
    }
}

#[derive(Debug)]
struct FakePrespawned {
    machine: FakeMachine,
    script: Arc<Script>,
    state: Vec<u8>,
    deadline: Duration,
    watch: Stopwatch,
}

impl PrespawnedMonitor for FakePrespawned {
    fn process(&self) -> Option<&ProcessIdentity> {
        None
    }

    fn load(mut self: Box<Self>) -> BoxFuture<'static, Result<Started, EngineError>> {
        Box::pin(async move {
            self.watch.skip();
            let after = self.deadline;
            let load = self.script.play(Operation::Load, || self.machine.control().crash(), || {});
            let late = EngineError::Deadline { operation: Operation::Load, after };
            timeout(after, load).await.unwrap_or(Err(late))?;
            if !self.state.starts_with(STATE_MAGIC) {
                let source = "the state file is not one of this engine".into();
                return Err(EngineError::Control { operation: Operation::Load, source });
            }
            self.watch.stage("load");
            Ok(Started { machine: Box::new(self.machine), timings: self.watch.finish() })
        })
    }
}
