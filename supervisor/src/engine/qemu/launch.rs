//! Boots a machine from kernel and image.

use std::fs::{File, OpenOptions};
use std::io;
use std::os::fd::{AsRawFd, OwnedFd};
use std::os::unix::fs::OpenOptionsExt;

use nix::sys::statvfs::fstatvfs;
use tokio::time::timeout;

use super::args::{self, BootMemory, Mode};
use super::engine::QemuEngine;
use super::machine::QemuMachine;
use super::start::{Start, connected_pair, start};
use crate::engine::{BootSpec, EngineError, Operation, SnapshotFiles, Started, Stopwatch};
use crate::host::process::Tail;

const LAUNCH: Operation = Operation::Launch;

/// How much of a booting guest's console is kept for whoever looks for the cause of a failure.
const CONSOLE_TAIL_BYTES: usize = 64 * 1024;

pub(super) async fn launch(engine: &QemuEngine, spec: BootSpec) -> Result<Started, EngineError> {
    let deadline = spec.home.deadline;
    // On the deadline the future is dropped, and with it the process it had started.
    timeout(deadline, boot(engine, spec))
        .await
        .unwrap_or(Err(EngineError::Deadline { operation: LAUNCH, after: deadline }))
}

async fn boot(engine: &QemuEngine, spec: BootSpec) -> Result<Started, EngineError> {
    let mut watch = Stopwatch::start();
    let BootSpec { hardware, home, kernel, kernel_args, snapshot_dir } = spec;
    let files = snapshot_dir.as_deref().map(SnapshotFiles::in_dir);
    let memory = files.as_ref().map(|files| create_memory(files, hardware.memory_mib)).transpose()?;

    let kernel_file = File::open(&kernel).map_err(EngineError::file(LAUNCH, &kernel))?;
    let (console, console_child) = connected_pair(LAUNCH, &home.work_dir)?;
    let command_line = args::command_line(engine.accelerator, engine.tsc_khz().await, &kernel_args);
    let mode = Mode::Boot {
        kernel: kernel_file.as_raw_fd(),
        command_line: &command_line,
        console: console_child.as_raw_fd(),
        memory: if memory.is_some() { BootMemory::SharedFile } else { BootMemory::Anonymous },
    };
    let inherit = vec![kernel_file.into(), console_child.into()];
    let plan = Start { operation: LAUNCH, hardware: &hardware, home, mode, memory, inherit };
    let monitor = start(engine, plan, &mut watch).await?;
    let tail = Tail::new(CONSOLE_TAIL_BYTES);
    tokio::spawn(tail.clone().drain(console));
    let machine = QemuMachine::new(monitor, engine.qemu.version, files, Some(tail), None);
    Ok(Started { machine: Box::new(machine), timings: watch.finish() })
}

/// The sparse file that is the guest's memory, and will be the snapshot's.
fn create_memory(files: &SnapshotFiles, mib: u32) -> Result<OwnedFd, EngineError> {
    let failed = |error| EngineError::file(LAUNCH, &files.memory)(error);
    let file = OpenOptions::new()
        .read(true)
        .write(true)
        .create_new(true)
        .mode(0o600)
        .open(&files.memory)
        .map_err(failed)?;
    let size = u64::from(mib) << 20;
    // A guest that writes to a page the disk has no room for does not get an error: its monitor dies.
    let disk = fstatvfs(&file).map_err(|error| failed(error.into()))?;
    let free = disk.blocks_available() * disk.fragment_size();
    if free < size {
        let words = format!("the memory needs {mib} MiB of disk, {} MiB are free", free >> 20);
        return Err(failed(io::Error::new(io::ErrorKind::StorageFull, words)));
    }
    file.set_len(size).map_err(failed)?;
    Ok(file.into())
}
