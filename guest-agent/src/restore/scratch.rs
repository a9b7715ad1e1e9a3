//! Puts the scratch disk under what the sandbox writes: its home, the temporary directories and kept output.
//!
//! Each directory gets an overlay whose lower layer is what the snapshot has there and whose upper layer is
//! on the disk, so nothing is copied and processes from before the snapshot keep their files.

use std::fs;
use std::io;
use std::os::unix::fs::{PermissionsExt, chown};
use std::path::Path;

use nix::mount::{MsFlags, mount as mount_fs};
use rekindle_protocol::wire;

use crate::exec::Account;

const DISK: &str = "/run/rekindle-scratch";
/// Nothing on the disk outlives its machine. So a file that replaces another need not reach the disk before its
/// name does, and tables of a fresh disk need not be written out in the background.
const EXT4_OPTIONS: &str = "noauto_da_alloc,noinit_itable";

/// Mounts the disk and lays it over the writable directories.
///
/// # Errors
/// Names the step the kernel refused.
pub fn mount(disk: &wire::Scratch, account: &Account, state: &Path) -> io::Result<()> {
    fs::create_dir_all(DISK)?;
    fs::set_permissions(DISK, fs::Permissions::from_mode(0o700))?;
    let flags = MsFlags::MS_NOSUID | MsFlags::MS_NODEV | MsFlags::MS_NOATIME;
    let options = (disk.fstype == "ext4").then_some(EXT4_OPTIONS);
    mount_fs(Some(disk.device.as_str()), DISK, Some(disk.fstype.as_str()), flags, options)
        .map_err(|error| io::Error::other(format!("mount {}: {error}", disk.device)))?;
    let owner = Some((account.uid, account.gid));
    lay_over("home", &account.home, 0o700, owner)?;
    lay_over("tmp", Path::new("/tmp"), 0o1777, None)?;
    lay_over("var-tmp", Path::new("/var/tmp"), 0o1777, None)?;
    lay_over("state", state, 0o755, None)
}

fn lay_over(name: &str, target: &Path, mode: u32, owner: Option<(u32, u32)>) -> io::Result<()> {
    let (upper, work) = (format!("{DISK}/{name}"), format!("{DISK}/{name}.work"));
    for dir in [&upper, &work] {
        fs::create_dir(dir)?;
    }
    // The upper layer's root decides who may write to the merged directory.
    fs::set_permissions(&upper, fs::Permissions::from_mode(mode))?;
    if let Some((uid, gid)) = owner {
        chown(&upper, Some(uid), Some(gid))?;
    }
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
