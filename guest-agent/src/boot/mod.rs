//! What PID 1 does before it serves: mounts, a writable root over the read-only image, loopback, identity.
//!
//! Called by `main`, once, only where the agent is the guest's init.

mod layer;
mod mounts;
mod network;
mod overlay;

use std::fs;
use std::io;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;

use crate::config::Config;
use crate::restore::reseed;

pub use layer::{check_room as check_room_for_root, save as save_root};

/// Until the restore gate gives the clone a name of its own.
const HOSTNAME: &str = "rekindle";

/// Makes `/proc`, `/sys` and `/dev` visible.
///
/// # Errors
/// When the kernel refuses one of the mounts.
pub fn early() -> io::Result<()> {
    mounts::mount_all(mounts::BEFORE_OVERLAY)
}

/// Makes the root writable; what an earlier machine saved on `disk` is in it again.
///
/// # Errors
/// When the kernel refuses a step, or what was saved cannot be read.
pub fn root(disk: Option<&Path>) -> io::Result<()> {
    overlay::make_root_writable(disk)?;
    mounts::mount_all(mounts::AFTER_OVERLAY)
}

/// Everything else that does not depend on the supervisor.
///
/// # Errors
/// When something executions rely on cannot be set up.
pub fn late(config: &Config) -> io::Result<()> {
    network::bring_up_loopback()?;
    nix::unistd::sethostname(HOSTNAME)?;
    fs::create_dir_all(&config.state)?;
    for dir in ["/tmp", "/var/tmp", "/dev/shm", reseed::REGISTRY] {
        fs::create_dir_all(dir)?;
        fs::set_permissions(dir, fs::Permissions::from_mode(0o1777))?;
    }
    // Twice a second the kernel would wake up to look whether memory wants tidying; a guest does not live for that.
    let _ = fs::write("/proc/sys/vm/compaction_proactiveness", "0");
    for (link, target) in [
        ("/dev/fd", "/proc/self/fd"),
        ("/dev/stdin", "fd/0"),
        ("/dev/stdout", "fd/1"),
        ("/dev/stderr", "fd/2"),
    ] {
        match std::os::unix::fs::symlink(target, link) {
            Err(error) if error.kind() != io::ErrorKind::AlreadyExists => return Err(error),
            _ => {}
        }
    }
    Ok(())
}
