//! The jail of one monitor: its root directory and the jailer's command line.
//!
//! ```text
//! <work dir>/jail/firecracker/vm/root/     the monitor's root, made here, completed by the jailer
//!                                image     bound, read-only
//!                                scratch   bound
//!                                kernel, memory, state   bound, as the verb needs them
//!                                run/      sockets: api.sock, agent.sock, agent.sock_<ready port>; metrics
//! ```
//!
//! The binds exist in the monitor's own mount namespace only; on the host these are empty files. The
//! snapshot remembers the paths, which are the same in every jail, so a clone needs no overrides. They are
//! relative to that root, which is the monitor's directory with and without the jailer.

use std::ffi::OsString;
use std::fs::{self, DirBuilder, File, OpenOptions};
use std::os::fd::AsRawFd;
use std::os::unix::fs::{DirBuilderExt, MetadataExt, OpenOptionsExt, chown, lchown};
use std::path::{Path, PathBuf};

use super::find::FoundFirecracker;
use crate::engine::{EngineError, Hardware, Operation};
use crate::host::process::{Bind, RunAs};

/// The root image, as the monitor sees it.
pub(super) const IMAGE: &str = "image";
/// The scratch disk.
pub(super) const SCRATCH: &str = "scratch";
/// The kernel.
pub(super) const KERNEL: &str = "kernel";
/// The snapshot's memory.
pub(super) const MEMORY: &str = "memory";
/// The snapshot's state.
pub(super) const STATE: &str = "state";
/// The control socket.
const API: &str = "api.sock";
/// The socket of the vsock device.
pub(super) const AGENT: &str = "agent.sock";
/// The pipe for what the monitor counts.
pub(super) const METRICS: &str = "metrics";

/// Every monitor is alone in its work directory, so all have the same name.
const ID: &str = "vm";
/// Open files a monitor may have: its disks, its sockets, KVM, events.
const OPEN_FILES: u32 = 256;
/// Room in the limit on file sizes beside the largest file a monitor writes.
const FILE_SIZE_SLACK: u64 = 16 << 20;

/// A file for the monitor.
#[derive(Debug, Clone, Copy)]
pub(super) struct Entry<'a> {
    /// Where the monitor sees it.
    pub(super) name: &'static str,
    /// Where it is.
    pub(super) source: &'a Path,
    /// Whether the monitor writes to it. It then becomes the monitor's user's.
    pub(super) writable: bool,
}

/// A root directory for one monitor.
#[derive(Debug)]
pub(super) struct Jail {
    base: PathBuf,
    root: PathBuf,
    /// Held open for paths that are short enough for a socket's address.
    run: File,
    user: RunAs,
    pub(super) binds: Vec<Bind>,
    largest: u64,
}

impl Jail {
    /// Makes the root directory, with the disks of `hardware` and `more` files.
    pub(super) fn build(
        operation: Operation,
        firecracker: &FoundFirecracker,
        work_dir: &Path,
        user: RunAs,
        hardware: &Hardware,
        more: &[Entry<'_>],
    ) -> Result<Self, EngineError> {
        let base = work_dir.join("jail");
        let program = firecracker.path.file_name().unwrap_or_default();
        let root = base.join(program).join(ID).join("root");
        let run_dir = root.join("run");
        let failed = |path: &Path| EngineError::file(operation, path);
        DirBuilder::new().recursive(true).mode(0o700).create(&run_dir).map_err(failed(&run_dir))?;
        let run = File::open(&run_dir).map_err(failed(&run_dir))?;
        let mut jail = Self { base, root, run, user, binds: Vec::new(), largest: 0 };
        let disks = [
            Entry { name: IMAGE, source: &hardware.image, writable: false },
            Entry { name: SCRATCH, source: &hardware.scratch, writable: true },
        ];
        for entry in disks.iter().chain(more) {
            jail.add(operation, *entry)?;
        }
        Ok(jail)
    }

    fn add(&mut self, operation: Operation, entry: Entry<'_>) -> Result<(), EngineError> {
        let Entry { name, source, writable } = entry;
        let failed = |path: &Path| EngineError::file(operation, path);
        let facts = fs::metadata(source).map_err(failed(source))?;
        if writable {
            chown(source, Some(self.user.uid), Some(self.user.gid)).map_err(failed(source))?;
            self.largest = self.largest.max(facts.len());
        } else if facts.mode() & 0o004 == 0 && facts.uid() != self.user.uid {
            let reason = format!("{} is not readable by the machine's user", source.display());
            return Err(EngineError::refused(operation, reason));
        }
        let target = self.root.join(name);
        OpenOptions::new().write(true).create_new(true).mode(0o000).open(&target).map_err(failed(&target))?;
        self.binds.push(Bind { source: source.to_owned(), target, writable });
        Ok(())
    }

    /// Raises the limit on the size of files the monitor writes.
    pub(super) fn allow_file_size(&mut self, bytes: u64) {
        self.largest = self.largest.max(bytes);
    }

    /// The jailer's arguments.
    ///
    /// It is given no control group: the whole family starts in the machine's own one already. Nor does
    /// it make the process namespace, because it could not be tied to the supervisor's life then.
    pub(super) fn jailer_arguments(&self, firecracker: &FoundFirecracker) -> Vec<OsString> {
        let file_size = self.largest + FILE_SIZE_SLACK;
        let mut args: Vec<OsString> = Vec::new();
        let mut pair = |name: &str, value: OsString| args.extend([OsString::from(name), value]);
        pair("--id", ID.into());
        pair("--exec-file", firecracker.path.clone().into());
        pair("--uid", self.user.uid.to_string().into());
        pair("--gid", self.user.gid.to_string().into());
        pair("--chroot-base-dir", self.base.clone().into());
        pair("--resource-limit", format!("no-file={OPEN_FILES}").into());
        pair("--resource-limit", format!("fsize={file_size}").into());
        args.push("--".into());
        args.extend(self.monitor_arguments());
        args
    }

    /// Firecracker's own arguments.
    pub(super) fn monitor_arguments(&self) -> Vec<OsString> {
        // The level is enough to say that it listens (see `start`) and what it was asked for last.
        let pairs = [
            ("--api-sock", format!("run/{API}")),
            ("--metrics-path", format!("run/{METRICS}")),
            ("--level", "Info".to_owned()),
        ];
        pairs.into_iter().flat_map(|(name, value)| [name.into(), value.into()]).collect()
    }

    /// The monitor's root directory.
    pub(super) fn root(&self) -> &Path {
        &self.root
    }

    /// The directory of its sockets.
    pub(super) fn run_dir(&self) -> PathBuf {
        self.root.join("run")
    }

    /// The name of the control socket in [`Jail::run_dir`].
    pub(super) fn api_name(&self) -> &'static str {
        API
    }

    /// A path of a socket in [`Jail::run_dir`] that fits into an address, which holds 107 bytes. Good
    /// as long as this jail is.
    pub(super) fn socket(&self, name: &str) -> PathBuf {
        PathBuf::from(format!("/proc/self/fd/{}", self.run.as_raw_fd())).join(name)
    }

    /// Hands a socket made here to the monitor's user.
    pub(super) fn give(&self, operation: Operation, name: &str) -> Result<(), EngineError> {
        let path = self.run_dir().join(name);
        // Never what a link points to: the directory is the monitor's once it runs.
        lchown(&path, Some(self.user.uid), Some(self.user.gid)).map_err(EngineError::file(operation, &path))
    }
}
