//! What to boot or restore: plain data from `vm` to an engine.

use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use crate::host::cgroup::CgroupJoin;
use crate::host::process::RunAs;

/// The virtual hardware. A snapshot is restored with exactly the hardware it was taken with.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Hardware {
    /// Virtual processors.
    pub vcpus: u32,
    /// Memory in mebibytes.
    pub memory_mib: u32,
    /// The root file system image, opened read-only: `/dev/vda` in the guest.
    pub image: PathBuf,
    /// The scratch disk, this machine's alone: `/dev/vdb` in the guest.
    pub scratch: PathBuf,
}

/// Where a machine lives on the host and under which restrictions.
#[derive(Debug)]
pub struct MachineHome {
    /// A directory of its own, which the caller made and removes.
    pub work_dir: PathBuf,
    /// The control group its monitor starts in.
    pub cgroup: Option<CgroupJoin>,
    /// The user its monitor runs as; `None` keeps the supervisor's.
    pub run_as: Option<RunAs>,
    /// Bound on the scratch disk's traffic, enforced by the monitor.
    pub io: IoThrottle,
    /// How long starting may take before it is given up.
    pub deadline: Duration,
}

/// Bounds on the scratch disk's traffic, reading and writing together; `None` is unbounded.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct IoThrottle {
    /// Bytes a second.
    pub bytes_per_second: Option<u64>,
    /// Operations a second.
    pub operations_per_second: Option<u64>,
}

/// A machine to boot.
#[derive(Debug)]
pub struct BootSpec {
    /// The virtual hardware.
    pub hardware: Hardware,
    /// Where it lives.
    pub home: MachineHome,
    /// The kernel, an uncompressed ELF file.
    pub kernel: PathBuf,
    /// Words added to the kernel's command line.
    pub kernel_args: Vec<String>,
    /// The directory the snapshot will be written to. Without it the machine cannot be frozen.
    pub snapshot_dir: Option<PathBuf>,
}

/// A snapshot to restore.
#[derive(Debug)]
pub struct RestoreSpec {
    /// The virtual hardware, the same as at launch but for the scratch disk's content.
    pub hardware: Hardware,
    /// Where it lives.
    pub home: MachineHome,
    /// The snapshot. Its files are opened read-only.
    pub snapshot: SnapshotFiles,
}

/// The files of a snapshot.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SnapshotFiles {
    /// The guest's memory.
    pub memory: PathBuf,
    /// The state of processors and devices.
    pub state: PathBuf,
    /// What bounds the scratch disk's traffic in it, where that is known. An engine whose snapshots keep such
    /// bounds need not set the same ones again.
    pub io: Option<IoThrottle>,
    /// Pages of the memory, by their number, that every clone writes to before its first program is done. An engine
    /// may prefault them.
    pub prefault: Arc<[u64]>,
}

impl SnapshotFiles {
    /// The files of a snapshot in `dir`; every engine uses these names.
    #[must_use]
    pub fn in_dir(dir: &std::path::Path) -> Self {
        Self { memory: dir.join("memory"), state: dir.join("state"), io: None, prefault: Arc::default() }
    }
}
