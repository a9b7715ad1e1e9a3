//! Restores a snapshot: a monitor that waits, then the load.

use std::fs::File;
use std::os::fd::AsFd;
use std::time::Duration;

use serde_json::{Value, json};
use tokio::time::timeout;

use super::args::Mode;
use super::control::explain;
use super::engine::QemuEngine;
use super::machine::QemuMachine;
use super::qmp::QmpError;
use super::start::{Monitor, Start, start};
use super::version::QemuVersion;
use crate::engine::{BoxFuture, EngineError, Operation, PrespawnedMonitor, RestoreSpec, Started, Stopwatch};
use crate::host::process::ProcessIdentity;

pub(super) async fn prespawn(
    engine: &QemuEngine,
    spec: RestoreSpec,
) -> Result<Box<dyn PrespawnedMonitor>, EngineError> {
    let deadline = spec.home.deadline;
    let monitor = timeout(deadline, wait_for_snapshot(engine, spec))
        .await
        .unwrap_or(Err(EngineError::Deadline { operation: Operation::Prespawn, after: deadline }))?;
    Ok(Box::new(monitor))
}

async fn wait_for_snapshot(engine: &QemuEngine, spec: RestoreSpec) -> Result<PrespawnedQemu, EngineError> {
    const PRESPAWN: Operation = Operation::Prespawn;
    let mut watch = Stopwatch::start();
    let RestoreSpec { hardware, home, snapshot } = spec;
    let deadline = home.deadline;
    let open = |path: &std::path::Path| File::open(path).map_err(EngineError::file(PRESPAWN, path));
    let memory = open(&snapshot.memory)?;
    let state = open(&snapshot.state)?;
    // A shorter file would kill the monitor at the first page beyond its end.
    let length = memory.metadata().map_err(EngineError::file(PRESPAWN, &snapshot.memory))?.len();
    if length != u64::from(hardware.memory_mib) << 20 {
        let reason = format!("the memory file has {length} bytes, the machine {} MiB", hardware.memory_mib);
        return Err(EngineError::refused(PRESPAWN, reason));
    }
    let plan = Start {
        operation: PRESPAWN,
        hardware: &hardware,
        home,
        mode: Mode::Restore,
        memory: Some(memory.into()),
        inherit: Vec::new(),
    };
    let monitor = start(engine, plan, &mut watch).await?;
    if let Err(error) = monitor.qmp.enable_template_migration().await {
        return Err(explain(&monitor.process, PRESPAWN, error).await);
    }
    Ok(PrespawnedQemu { monitor, state, version: engine.qemu.version, deadline, watch })
}

/// A monitor waiting for its snapshot.
#[derive(Debug)]
struct PrespawnedQemu {
    monitor: Monitor,
    state: File,
    version: QemuVersion,
    deadline: Duration,
    watch: Stopwatch,
}

impl PrespawnedMonitor for PrespawnedQemu {
    fn process(&self) -> Option<&ProcessIdentity> {
        Some(self.monitor.process.identity())
    }

    fn load(self: Box<Self>) -> BoxFuture<'static, Result<Started, EngineError>> {
        Box::pin(async move {
            let deadline = self.deadline;
            timeout(deadline, load(*self))
                .await
                .unwrap_or(Err(EngineError::Deadline { operation: Operation::Load, after: deadline }))
        })
    }
}

async fn load(waiting: PrespawnedQemu) -> Result<Started, EngineError> {
    let PrespawnedQemu { mut monitor, state, version, mut watch, .. } = waiting;
    watch.skip();
    if let Err(error) = incoming(&monitor, &state, version).await {
        return Err(explain(&monitor.process, Operation::Load, error).await);
    }
    watch.stage("load");
    // A snapshot is of a paused machine, and so is what was loaded.
    if let Err(error) = monitor.qmp.execute("cont", Value::Null).await {
        return Err(explain(&monitor.process, Operation::Load, error).await);
    }
    watch.stage("resume");
    let line = monitor.line.take();
    let machine = QemuMachine::new(monitor, version, None, None, line);
    Ok(Started { machine: Box::new(machine), timings: watch.finish() })
}

async fn incoming(monitor: &Monitor, state: &File, version: QemuVersion) -> Result<(), QmpError> {
    let uri = pass_file(monitor, state, version).await?;
    let completed = monitor.qmp.subscribe();
    monitor.qmp.execute("migrate-incoming", json!({ "uri": uri })).await?;
    monitor.qmp.migration_completed(completed).await
}

/// Hands a file to the monitor and returns the migration address that names it.
pub(super) async fn pass_file(
    monitor: &Monitor,
    file: &File,
    version: QemuVersion,
) -> Result<String, QmpError> {
    if version.has_file_migration() {
        const SET: u32 = 9;
        let set = json!({ "fdset-id": SET });
        monitor.qmp.execute_with_fd("add-fd", set, file.as_fd()).await?;
        Ok(format!("file:/dev/fdset/{SET}"))
    } else {
        monitor.qmp.execute_with_fd("getfd", json!({ "fdname": "state" }), file.as_fd()).await?;
        Ok("fd:state".to_owned())
    }
}
