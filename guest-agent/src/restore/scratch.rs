//! Puts the scratch disk under what the sandbox writes: its home, the temporary directories and spilled output.
//!
//! Each directory gets an overlay whose lower layer is what the snapshot has there and whose upper layer is
//! on the disk, so nothing is copied and processes from before the snapshot keep their files.

use std::fs;
use std::io;
use std::os::unix::fs::{PermissionsExt, chown};
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use nix::errno::Errno;
use nix::mount::{MsFlags, mount as mount_fs};
use rekindle_protocol::wire;

use crate::exec::Account;

pub const DISK: &str = "/run/rekindle-scratch";
/// Whether it is mounted.
static MOUNTED: AtomicBool = AtomicBool::new(false);
/// How long whatever still writes may take to be done.
const LAST_WRITERS: Duration = Duration::from_secs(5);
const NEXT_TRY: Duration = Duration::from_millis(20);
/// Nothing on the disk outlives its machine unless that is stopped, and then all of it is written. So a file that
/// replaces another need not reach the disk before its name does, and tables of a fresh disk need not be written out in
/// the background.
const EXT4_OPTIONS: &str = "noauto_da_alloc,noinit_itable";

const FLAGS: MsFlags = MsFlags::MS_NOSUID.union(MsFlags::MS_NODEV).union(MsFlags::MS_NOATIME);

/// Mounts the disk and lays it over the writable directories.
///
/// # Errors
/// Names the step the kernel refused.
pub fn mount(disk: &wire::Scratch, account: &Account, state: &Path) -> io::Result<()> {
    fs::create_dir_all(DISK)?;
    fs::set_permissions(DISK, fs::Permissions::from_mode(0o700))?;
    let options = (disk.fstype == "ext4").then_some(EXT4_OPTIONS);
    mount_fs(Some(disk.device.as_str()), DISK, Some(disk.fstype.as_str()), FLAGS, options)
        .map_err(|error| io::Error::other(format!("mount {}: {error}", disk.device)))?;
    MOUNTED.store(true, Ordering::Relaxed);
    let owner = Some((account.uid, account.gid));
    for (name, target, mode, owner) in [
        ("home", account.home.as_path(), 0o700, owner),
        ("tmp", Path::new("/tmp"), 0o1777, None),
        ("var-tmp", Path::new("/var/tmp"), 0o1777, None),
        ("state", state, 0o755, None),
    ] {
        if !(disk.kept && is_there(name)) {
            make(name, mode, owner)?;
        }
        lay_over(name, target)?;
    }
    Ok(())
}

/// Whether there is a disk in place.
pub fn is_mounted() -> bool {
    MOUNTED.load(Ordering::Relaxed)
}

/// Writes everything to the disk and makes it read-only: nothing is lost with the machine from here on. To be called on
/// a thread that may block, once programs have ended.
///
/// # Errors
/// `EBUSY` when something goes on writing; anything else when the disk refuses. It can be written to then as before.
pub fn make_read_only() -> io::Result<()> {
    let began = Instant::now();
    let flags = MsFlags::MS_REMOUNT | MsFlags::MS_RDONLY | FLAGS;
    loop {
        nix::unistd::sync();
        match mount_fs(None::<&str>, DISK, None::<&str>, flags, None::<&str>) {
            Ok(()) => return Ok(()),
            Err(Errno::EBUSY) if began.elapsed() < LAST_WRITERS => std::thread::sleep(NEXT_TRY),
            Err(error) => return Err(error.into()),
        }
    }
}

/// Whether an earlier machine has made a layer.
fn is_there(name: &str) -> bool {
    Path::new(&format!("{DISK}/{name}")).is_dir() && Path::new(&format!("{DISK}/{name}.work")).is_dir()
}

/// Makes an empty layer.
fn make(name: &str, mode: u32, owner: Option<(u32, u32)>) -> io::Result<()> {
    let (upper, work) = (format!("{DISK}/{name}"), format!("{DISK}/{name}.work"));
    for dir in [&upper, &work] {
        fs::create_dir(dir)?;
    }
    // The upper layer's root decides who may write to the merged directory.
    fs::set_permissions(&upper, fs::Permissions::from_mode(mode))?;
    match owner {
        Some((uid, gid)) => chown(&upper, Some(uid), Some(gid)),
        None => Ok(()),
    }
}

fn lay_over(name: &str, target: &Path) -> io::Result<()> {
    let (upper, work) = (format!("{DISK}/{name}"), format!("{DISK}/{name}.work"));
    let layers = format!("lowerdir={},upperdir={upper},workdir={work}", target.display());
    mount_fs(
        Some("overlay"),
        target,
        Some("overlay"),
        MsFlags::MS_NOSUID | MsFlags::MS_NODEV,
        Some(layers.as_str()),
    )
    .map_err(|error| io::Error::other(format!("overlay on {}: {error}", target.display())))
}
