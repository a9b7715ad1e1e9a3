//! Where a machine's scratch disk comes from, and making it. Called by `phases`.

use std::path::PathBuf;

use super::error::StartError;
use super::host::VmHost;
use super::workdir::WorkDir;
use crate::host::scratch;
use crate::store::StagingDir;

/// The disk's name in a machine's directory, and wherever it is kept.
pub(super) const SCRATCH: &str = "scratch";

/// Where a scratch disk comes from.
#[derive(Debug, Clone)]
pub enum ScratchPlan {
    /// An empty one of this size. Made in `staging` it outlives the machine: it becomes part of a snapshot.
    Blank {
        /// Size in mebibytes.
        mib: u64,
        /// Elsewhere than in the machine's own directory.
        staging: Option<StagingDir>,
    },
    /// A copy of a template's.
    CopyOf(PathBuf),
    /// The one an earlier machine was stopped with, under a second name.
    Kept(PathBuf),
}

/// Makes the scratch disk, on a thread that may block. It holds the directories: where the start is given up meanwhile,
/// they are removed after it.
pub(super) async fn make(
    host: &VmHost,
    plan: ScratchPlan,
    mut work_dir: WorkDir,
) -> Result<(WorkDir, PathBuf), StartError> {
    let (maker, path) = (host.scratch.clone(), work_dir.path().to_owned());
    let making = tokio::task::spawn_blocking(move || {
        let own = work_dir.path().join(SCRATCH);
        let scratch = match plan {
            ScratchPlan::Blank { mib, staging } => {
                let target = staging.as_ref().map_or(own, StagingDir::scratch);
                work_dir.write_into(staging);
                maker.make(mib, &target).map(|()| target)
            }
            ScratchPlan::CopyOf(source) => scratch::copy(&source, &own).map(|()| own),
            ScratchPlan::Kept(source) => scratch::link(&source, &own).map(|()| own),
        };
        scratch.map(|scratch| (work_dir, scratch))
    });
    match making.await {
        Ok(made) => made.map_err(StartError::Scratch),
        Err(error) => Err(StartError::File {
            operation: "make a scratch disk in",
            path,
            source: std::io::Error::other(error),
        }),
    }
}
