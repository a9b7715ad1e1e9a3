//! The mount table of a guest.

use std::fs;
use std::io;

use nix::mount::{MsFlags, mount};

/// One line of the table.
pub struct Mount {
    source: &'static str,
    target: &'static str,
    fstype: &'static str,
    flags: MsFlags,
    data: &'static str,
}

const SAFE: MsFlags = MsFlags::MS_NOSUID.union(MsFlags::MS_NODEV).union(MsFlags::MS_NOEXEC);

/// What the overlay needs, and what moves along with the root.
pub const BEFORE_OVERLAY: &[Mount] = &[
    Mount { source: "proc", target: "/proc", fstype: "proc", flags: SAFE, data: "hidepid=invisible" },
    Mount { source: "sysfs", target: "/sys", fstype: "sysfs", flags: SAFE, data: "" },
    Mount {
        source: "devtmpfs",
        target: "/dev",
        fstype: "devtmpfs",
        flags: MsFlags::MS_NOSUID,
        data: "mode=0755",
    },
];

/// What only the writable root has room for.
pub const AFTER_OVERLAY: &[Mount] = &[
    Mount {
        source: "devpts",
        target: "/dev/pts",
        fstype: "devpts",
        flags: MsFlags::MS_NOSUID.union(MsFlags::MS_NOEXEC),
        data: "mode=0620,gid=5,ptmxmode=0666",
    },
    Mount {
        source: "tmpfs",
        target: "/dev/shm",
        fstype: "tmpfs",
        flags: MsFlags::MS_NOSUID.union(MsFlags::MS_NODEV),
        data: "mode=1777,size=50%",
    },
    Mount {
        source: "tmpfs",
        target: "/run",
        fstype: "tmpfs",
        flags: MsFlags::MS_NOSUID.union(MsFlags::MS_NODEV),
        data: "mode=0755,size=10%",
    },
    Mount {
        source: "cgroup2",
        target: "/sys/fs/cgroup",
        fstype: "cgroup2",
        flags: SAFE,
        data: "favordynmods",
    },
];

/// Mounts every line; a target that is missing is made.
///
/// # Errors
/// The first mount the kernel refuses, named.
pub fn mount_all(table: &[Mount]) -> io::Result<()> {
    for line in table {
        // On the read-only image the directory is there already.
        let _ = fs::create_dir_all(line.target);
        match mount(Some(line.source), line.target, Some(line.fstype), line.flags, Some(line.data)) {
            Ok(()) => {}
            // The kernel may have mounted devtmpfs itself.
            Err(nix::errno::Errno::EBUSY) => {}
            // An older kernel does not know an option that only makes things better.
            Err(nix::errno::Errno::EINVAL) if !line.data.is_empty() => {
                mount(Some(line.source), line.target, Some(line.fstype), line.flags, None::<&str>)
                    .map_err(|error| named(line.target, error))?;
            }
            Err(error) => return Err(named(line.target, error)),
        }
    }
    Ok(())
}

fn named(target: &str, error: nix::errno::Errno) -> io::Error {
    io::Error::other(format!("mount {target}: {error}"))
}
