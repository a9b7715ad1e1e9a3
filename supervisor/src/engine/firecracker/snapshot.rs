//! Freezes a machine: pauses it and has its memory and state written.

use std::os::unix::fs::chown;
use std::path::Path;

use super::api::ApiError;
use super::api::models::{SnapshotCreateParams, Vm};
use super::control::explain;
use super::jail::{MEMORY, STATE};
use super::start::Monitor;
use crate::engine::{EngineError, Operation, SnapshotFiles};

const SNAPSHOT: Operation = Operation::Snapshot;

pub(super) async fn snapshot(monitor: &Monitor, files: &SnapshotFiles) -> Result<(), EngineError> {
    if let Err(error) = freeze(monitor).await {
        return Err(explain(&monitor.process, SNAPSHOT, error).await);
    }
    reclaim(&files.memory)?;
    reclaim(&files.state)
}

async fn freeze(monitor: &Monitor) -> Result<(), ApiError> {
    monitor.api.patch("/vm", &Vm { state: "Paused" }).await?;
    let params = SnapshotCreateParams { snapshot_type: "Full", snapshot_path: STATE, mem_file_path: MEMORY };
    monitor.api.put("/snapshot/create", &params).await
}

/// Takes a file back from the monitor's user, which owned it in order to write it.
fn reclaim(path: &Path) -> Result<(), EngineError> {
    let (user, group) = (nix::unistd::geteuid().as_raw(), nix::unistd::getegid().as_raw());
    chown(path, Some(user), Some(group)).map_err(EngineError::file(SNAPSHOT, path))
}
