//! What was written above the image, outside of the scratch disk: it is in memory, and goes to the disk when a machine
//! is stopped, to be there again when another one boots with that disk.
//!
//! ```text
//!   root = image (read-only) + layer (memory) ──save──► <disk>/root ──load──► layer of the next machine
//! ```
//!
//! The layer is copied as the kernel's overlay keeps it: removed files are devices of number 0, and directories that
//! replace one of the image say so in an attribute.

use std::fs::{self, File, Metadata};
use std::io;
use std::os::fd::AsRawFd as _;
use std::os::unix::fs::{FileTypeExt as _, MetadataExt as _, PermissionsExt as _, lchown, symlink};
use std::path::{Path, PathBuf};
use std::sync::OnceLock;

use nix::mount::{MntFlags, MsFlags, mount, umount2};
use nix::sys::stat::{Mode, SFlag, mknod};
use nix::sys::statvfs::statvfs;

use crate::files::Attributes;

/// What the layer is called on a disk.
const SAVED: &str = "root";
/// While it is being written.
const UNFINISHED: &str = "root.new";
/// Names a file of the image in the kernel's own terms, which are other ones in another machine.
const ORIGIN: &[u8] = b"trusted.overlay.origin";
/// The file system of scratch disks.
const FSTYPE: &str = "ext4";

/// The layer's directory: no path leads to it any more.
static LAYER: OnceLock<File> = OnceLock::new();

/// Keeps the directory of the layer at hand.
pub fn remember(layer: File) {
    let _ = LAYER.set(layer);
}

/// Fills an empty layer with what was saved on a disk, which is mounted at `aside` meanwhile. A disk of a machine that
/// was never stopped has nothing.
///
/// # Errors
/// When the disk cannot be read, or there is no room.
pub fn load(disk: &Path, aside: &Path, layer: &Path) -> io::Result<()> {
    let flags = MsFlags::MS_RDONLY | MsFlags::MS_NOSUID | MsFlags::MS_NODEV;
    mount(Some(disk), aside, Some(FSTYPE), flags, None::<&str>)
        .map_err(|error| io::Error::other(format!("mount {}: {error}", disk.display())))?;
    let saved = aside.join(SAVED);
    let loaded = if saved.is_dir() { copy(&saved, layer) } else { Ok(()) };
    loaded.and(umount2(aside, MntFlags::empty()).map_err(io::Error::from))
}

/// Refuses to begin where the disk has no room for the layer; what was saved before makes room.
///
/// # Errors
/// `ENOSPC`, or what the system says.
pub fn check_room(disk: &Path) -> io::Result<()> {
    let Some(layer) = layer() else { return Ok(()) };
    for old in [SAVED, UNFINISHED] {
        match fs::remove_dir_all(disk.join(old)) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
            _ => {}
        }
    }
    let (memory, room) = (statvfs(&layer)?, statvfs(disk)?);
    let used = (memory.blocks() - memory.blocks_free()) * memory.fragment_size();
    if used > room.blocks_available() * room.fragment_size() {
        return Err(io::Error::from_raw_os_error(libc::ENOSPC));
    }
    Ok(())
}

/// Saves the layer on a disk, whole or not at all. Nothing, where the root has none.
///
/// # Errors
/// What the system says.
pub fn save(disk: &Path) -> io::Result<()> {
    let Some(layer) = layer() else { return Ok(()) };
    let unfinished = disk.join(UNFINISHED);
    fs::create_dir(&unfinished)?;
    copy(&layer, &unfinished)?;
    fs::rename(unfinished, disk.join(SAVED))
}

fn layer() -> Option<PathBuf> {
    // With a dot: the descriptor's own entry is a link, and it is the directory that is meant.
    LAYER.get().map(|layer| PathBuf::from(format!("/proc/self/fd/{}/.", layer.as_raw_fd())))
}

/// A step of a copy.
enum Step {
    Enter(PathBuf),
    /// Its content is there: now what would have kept it from being written, or would have changed with it.
    Leave(PathBuf, Metadata),
}

/// Copies everything in one directory into another, which is there. Not recursive: programs of the sandbox decide how
/// deep it goes, and the stack is small.
fn copy(from: &Path, to: &Path) -> io::Result<()> {
    let mut steps = vec![Step::Enter(PathBuf::new())];
    while let Some(step) = steps.pop() {
        match step {
            Step::Enter(dir) => {
                let facts = fs::symlink_metadata(from.join(&dir))?;
                steps.push(Step::Leave(dir.clone(), facts));
                for entry in fs::read_dir(from.join(&dir))? {
                    let path = dir.join(entry?.file_name());
                    let (source, target) = (from.join(&path), to.join(&path));
                    let facts = fs::symlink_metadata(&source)?;
                    if facts.is_dir() {
                        fs::create_dir(&target)?;
                        steps.push(Step::Enter(path));
                    } else if make(&source, &target, &facts)? {
                        dress(&source, &target, &facts)?;
                    }
                }
            }
            Step::Leave(dir, facts) => dress(&from.join(&dir), &to.join(&dir), &facts)?,
        }
    }
    Ok(())
}

/// Makes one file that is no directory, with its content. Sockets are nothing without their programs.
fn make(source: &Path, target: &Path, facts: &Metadata) -> io::Result<bool> {
    let kind = facts.file_type();
    if kind.is_file() {
        fs::copy(source, target)?;
    } else if kind.is_symlink() {
        symlink(fs::read_link(source)?, target)?;
    } else if kind.is_socket() {
        return Ok(false);
    } else {
        let kind = match kind {
            kind if kind.is_fifo() => SFlag::S_IFIFO,
            kind if kind.is_block_device() => SFlag::S_IFBLK,
            _ => SFlag::S_IFCHR,
        };
        mknod(target, kind, Mode::empty(), facts.rdev())?;
    }
    Ok(true)
}

/// Gives a copy the owner, the mode, the attributes and the time of what it is of.
fn dress(source: &Path, target: &Path, facts: &Metadata) -> io::Result<()> {
    lchown(target, Some(facts.uid()), Some(facts.gid()))?;
    let wanted = |name: &[u8]| name != ORIGIN;
    Attributes::of_path(source)?.copy_to(&Attributes::of_path(target)?, wanted)?;
    if facts.is_symlink() {
        return Ok(());
    }
    // After the owner, whose change takes the right to become another user away.
    fs::set_permissions(target, fs::Permissions::from_mode(facts.mode() & 0o7777))?;
    // Opening anything else may wait for somebody, or do something.
    if facts.is_file() || facts.is_dir() {
        File::open(target)?.set_modified(facts.modified()?)?;
    }
    Ok(())
}

#[cfg(test)]
mod tests;
