//! Restores a snapshot: a jailed monitor that waits, then the load.

use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use tokio::time::timeout;

use super::api::ApiError;
use super::api::models::{
    BackendType, MemoryBackend, PartialDrive, RateLimiter, SnapshotLoadParams, Vm, VmState,
};
use super::control::explain;
use super::engine::FirecrackerEngine;
use super::jail::{Entry, MEMORY, STATE};
use super::launch::rate_limiter;
use super::machine::FirecrackerMachine;
use super::start::{Monitor, Start, start};
use crate::engine::{BoxFuture, EngineError, Operation, PrespawnedMonitor, RestoreSpec, Started, Stopwatch};
use crate::host::mapped::Mapped;
use crate::host::process::ProcessIdentity;

pub(super) async fn prespawn(
    engine: &FirecrackerEngine,
    spec: RestoreSpec,
) -> Result<Box<dyn PrespawnedMonitor>, EngineError> {
    let deadline = spec.home.deadline;
    let monitor = timeout(deadline, wait_for_snapshot(engine, spec))
        .await
        .unwrap_or(Err(EngineError::Deadline { operation: Operation::Prespawn, after: deadline }))?;
    Ok(Box::new(monitor))
}

async fn wait_for_snapshot(
    engine: &FirecrackerEngine,
    spec: RestoreSpec,
) -> Result<PrespawnedFirecracker, EngineError> {
    const PRESPAWN: Operation = Operation::Prespawn;
    let mut watch = Stopwatch::start();
    let RestoreSpec { hardware, home, snapshot } = spec;
    let deadline = home.deadline;
    // The snapshot brings its template's limits.
    let limiter = if snapshot.io == Some(home.io) { None } else { rate_limiter(home.io) };
    // A shorter file would kill the monitor at the first page beyond its end.
    let facts = std::fs::metadata(&snapshot.memory).map_err(EngineError::file(PRESPAWN, &snapshot.memory))?;
    if facts.len() != u64::from(hardware.memory_mib) << 20 {
        let reason =
            format!("the memory file has {} bytes, the machine {} MiB", facts.len(), hardware.memory_mib);
        return Err(EngineError::refused(PRESPAWN, reason));
    }
    let files = [
        Entry { name: MEMORY, source: &snapshot.memory, writable: false },
        Entry { name: STATE, source: &snapshot.state, writable: false },
    ];
    let plan =
        Start { operation: PRESPAWN, hardware: &hardware, home, files: &files, writes: 0, boots: false };
    let monitor = start(engine, plan, &mut watch).await?;
    let prefault = Prefault { memory: snapshot.memory, pages: snapshot.prefault };
    Ok(PrespawnedFirecracker { monitor, limiter, prefault, deadline, watch })
}

/// A jailed monitor waiting for its snapshot.
#[derive(Debug)]
struct PrespawnedFirecracker {
    monitor: Monitor,
    limiter: Option<RateLimiter>,
    prefault: Prefault,
    deadline: Duration,
    watch: Stopwatch,
}

/// The pages that every clone writes to.
#[derive(Debug)]
struct Prefault {
    memory: PathBuf,
    pages: Arc<[u64]>,
}

impl PrespawnedMonitor for PrespawnedFirecracker {
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

async fn load(waiting: PrespawnedFirecracker) -> Result<Started, EngineError> {
    let PrespawnedFirecracker { monitor, limiter, prefault, mut watch, .. } = waiting;
    watch.skip();
    if let Err(error) = request(&monitor, limiter, prefault, &mut watch).await {
        return Err(explain(&monitor, Operation::Load, error).await);
    }
    let machine = FirecrackerMachine::new(monitor, None);
    Ok(Started { machine: Box::new(machine), timings: watch.finish() })
}

async fn request(
    monitor: &Monitor,
    limiter: Option<RateLimiter>,
    prefault: Prefault,
    watch: &mut Stopwatch,
) -> Result<(), ApiError> {
    // Mapped privately by every clone: what none of them writes is in memory once.
    let memory = MemoryBackend { backend_type: BackendType::File, backend_path: MEMORY.into() };
    let params = SnapshotLoadParams {
        snapshot_path: STATE.into(),
        mem_backend: Some(memory),
        resume_vm: Some(prefault.pages.is_empty()),
        mem_file_path: None,
        enable_diff_snapshots: None,
    };
    monitor.api.put("/snapshot/load", &params).await?;
    if let Some(rate_limiter) = limiter {
        // Set before the agent is up: the gate is closed until later, so nothing of a caller's runs under the
        // template's limits.
        let drive = PartialDrive { drive_id: "scratch", rate_limiter };
        monitor.api.patch("/drives/scratch", &drive).await?;
    }
    watch.stage("load");
    if !prefault.pages.is_empty() {
        prefault_pages(monitor, prefault).await;
        monitor.api.patch("/vm", &Vm { state: VmState::Resumed }).await?;
        watch.stage("resume");
    }
    Ok(())
}

/// Has the kernel copy, while the guest is paused, what the guest would write to first. A page that is copied when
/// a guest that runs has read it already costs it three exits instead of one: it reads, it writes, and once more
/// because what it had mapped was taken away.
async fn prefault_pages(monitor: &Monitor, Prefault { memory, pages }: Prefault) {
    let pid = monitor.process.identity().pid;
    let copy = move || Mapped::find(pid, &memory)?.iter().try_for_each(|mapped| mapped.copy(&pages));
    let copied = tokio::task::spawn_blocking(copy).await;
    if let Err(error) = copied.unwrap_or_else(|error| Err(std::io::Error::other(error))) {
        // The guest copies them by itself.
        tracing::debug!(%error, "nothing was prefaulted");
    }
}
