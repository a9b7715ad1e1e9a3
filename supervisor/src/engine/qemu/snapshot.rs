//! Freezes a machine: its memory is in its file already, so only the state of processors and devices is
//! written.

use std::fs::{File, OpenOptions};
use std::os::unix::fs::OpenOptionsExt;

use serde_json::{Value, json};

use super::control::explain;
use super::qmp::QmpError;
use super::restore::pass_file;
use super::start::Monitor;
use super::version::QemuVersion;
use crate::engine::{EngineError, Operation, SnapshotFiles};

/// Bytes a second. The default is meant for networks and would hold the state back.
const UNTHROTTLED: u64 = 1 << 40;

pub(super) async fn snapshot(
    monitor: &Monitor,
    version: QemuVersion,
    files: &SnapshotFiles,
) -> Result<(), EngineError> {
    let state = OpenOptions::new()
        .write(true)
        .create_new(true)
        .mode(0o600)
        .open(&files.state)
        .map_err(EngineError::file(Operation::Snapshot, &files.state))?;
    match freeze(monitor, version, &state).await {
        Ok(()) => Ok(()),
        Err(error) => Err(explain(&monitor.process, Operation::Snapshot, error).await),
    }
}

async fn freeze(monitor: &Monitor, version: QemuVersion, state: &File) -> Result<(), QmpError> {
    let qmp = &monitor.qmp;
    qmp.execute("stop", Value::Null).await?;
    qmp.enable_template_migration().await?;
    qmp.execute("migrate-set-parameters", json!({ "max-bandwidth": UNTHROTTLED })).await?;
    let uri = pass_file(monitor, state, version).await?;
    let completed = qmp.subscribe();
    qmp.execute("migrate", json!({ "uri": uri })).await?;
    qmp.migration_completed(completed).await
}
