//! Freezes a machine: pauses it and has its memory and state written.

use std::fs::OpenOptions;
use std::io;
use std::os::unix::fs::chown;
use std::path::Path;

use rustix::fs::FallocateFlags;

use super::api::ApiError;
use super::api::models::{SnapshotCreateParams, SnapshotType, Vm, VmState};
use super::control::explain;
use super::jail::{MEMORY, STATE};
use super::start::Monitor;
use crate::engine::{EngineError, Operation, SnapshotFiles};

const SNAPSHOT: Operation = Operation::Snapshot;
/// How the kernel names its memory file system.
const TMPFS: rustix::fs::FsWord = 0x0102_1994;

pub(super) async fn snapshot(monitor: &Monitor, files: &SnapshotFiles) -> Result<(), EngineError> {
    allocate(&files.memory).map_err(EngineError::file(SNAPSHOT, &files.memory))?;
    if let Err(error) = freeze(monitor).await {
        return Err(explain(monitor, SNAPSHOT, error).await);
    }
    reclaim(&files.memory)?;
    reclaim(&files.state)
}

async fn freeze(monitor: &Monitor) -> Result<(), ApiError> {
    monitor.api.patch("/vm", &Vm { state: VmState::Paused }).await?;
    let params = SnapshotCreateParams {
        snapshot_type: Some(SnapshotType::Full),
        snapshot_path: STATE.into(),
        mem_file_path: MEMORY.into(),
        version: None,
    };
    monitor.api.put("/snapshot/create", &params).await
}

/// On a memory file system a page counts against the group of whoever first writes it, and cannot be
/// written back: the monitor's group has no room for its guest's memory twice. So it is ours.
fn allocate(path: &Path) -> io::Result<()> {
    let file = OpenOptions::new().write(true).open(path)?;
    if rustix::fs::fstatfs(&file)?.f_type == TMPFS {
        rustix::fs::fallocate(&file, FallocateFlags::empty(), 0, file.metadata()?.len())?;
    }
    Ok(())
}

/// Takes a file back from the monitor's user, which owned it in order to write it.
fn reclaim(path: &Path) -> Result<(), EngineError> {
    let (user, group) = (nix::unistd::geteuid().as_raw(), nix::unistd::getegid().as_raw());
    chown(path, Some(user), Some(group)).map_err(EngineError::file(SNAPSHOT, path))
}
