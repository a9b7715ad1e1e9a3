//! Scratch disks: the writable space of one virtual machine.
//!
//! Formatting takes a tenth of a second, so it is done once per size: a blank is kept, and a machine that
//! boots gets a sparse copy of its few written blocks. A clone gets a copy of its template's disk, exactly as
//! it was when the template was frozen. Called by `vm` before a start; the disk's file belongs to the
//! machine's work directory, which removes it, or to the snapshot it becomes part of.

use std::fs::{self, File, OpenOptions};
use std::io;
use std::os::unix::fs::{FileExt, MetadataExt, OpenOptionsExt};
use std::os::unix::process::CommandExt as _;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use nix::sys::prctl;
use nix::sys::signal::Signal;

use super::sparse::{Grain, next_data, punch_zeros};

/// Increase when the format changes, so that old blanks are not used.
const BLANK_VERSION: u32 = 3;

/// What [`MetadataExt::blocks`] counts in.
const BLOCK: u64 = 512;

/// Bytes that a disk takes on the host.
///
/// # Errors
/// When it is not there.
pub fn held(disk: &Path) -> io::Result<u64> {
    Ok(fs::metadata(disk)?.blocks().saturating_mul(BLOCK))
}

/// Why a scratch disk could not be made.
#[derive(Debug, thiserror::Error)]
pub enum ScratchError {
    /// A file could not be made or written.
    #[error("cannot {operation} {}", path.display())]
    File {
        /// What was tried.
        operation: &'static str,
        /// The file.
        path: PathBuf,
        /// What the kernel said.
        #[source]
        source: io::Error,
    },
    /// There is no program to format with.
    #[error("mkfs.ext4 was not found\nhint: install e2fsprogs")]
    NoFormatter,
    /// Formatting failed.
    #[error("mkfs.ext4 failed: {message}")]
    Format {
        /// The end of what it printed.
        message: String,
    },
}

fn file_error(operation: &'static str, path: &Path) -> impl FnOnce(io::Error) -> ScratchError {
    move |source| ScratchError::File { operation, path: path.to_owned(), source }
}

/// Makes scratch disks from blanks kept in one directory.
#[derive(Debug, Clone)]
pub struct ScratchMaker {
    blanks: PathBuf,
}

impl ScratchMaker {
    /// Keeps its blanks in `dir`, which is made when needed.
    #[must_use]
    pub fn new(dir: &Path) -> Self {
        Self { blanks: dir.to_owned() }
    }

    /// Makes a formatted disk of `mib` mebibytes at `target`, which must not exist.
    ///
    /// Blocks; milliseconds once there is a blank of that size.
    ///
    /// # Errors
    /// When a file cannot be written or the blank not be formatted; `target` does not exist then.
    pub fn make(&self, mib: u64, target: &Path) -> Result<(), ScratchError> {
        copy(&self.blank(mib)?, target)
    }

    /// The blank of that size, formatted on first use.
    fn blank(&self, mib: u64) -> Result<PathBuf, ScratchError> {
        let path = self.blanks.join(format!("ext4-v{BLANK_VERSION}-{mib}MiB.img"));
        if path.exists() {
            return Ok(path);
        }
        fs::create_dir_all(&self.blanks).map_err(file_error("create", &self.blanks))?;
        // Made aside and renamed: two at once both succeed, and half a blank is never seen.
        let aside = tempfile::Builder::new()
            .prefix(".blank-")
            .tempfile_in(&self.blanks)
            .map_err(file_error("create a file in", &self.blanks))?;
        aside.as_file().set_len(mib << 20).map_err(file_error("size", aside.path()))?;
        format(aside.path())?;
        // Every machine that boots copies what is not a hole.
        punch_zeros(aside.as_file(), Grain::Page).map_err(file_error("make holes in", aside.path()))?;
        aside.persist(&path).map_err(|error| file_error("rename to", &path)(error.error))?;
        Ok(path)
    }
}

/// Copies a disk to `target`, which must not exist; only what was ever written takes time and space.
///
/// # Errors
/// When a file cannot be read or written; `target` does not exist then.
pub fn copy(source: &Path, target: &Path) -> Result<(), ScratchError> {
    let from = File::open(source).map_err(file_error("open", source))?;
    let to = OpenOptions::new()
        .write(true)
        .create_new(true)
        .mode(0o600)
        .open(target)
        .map_err(file_error("create", target))?;
    copy_sparse(&from, &to).map_err(|error| {
        let _ = fs::remove_file(target);
        file_error("write", target)(error)
    })
}

/// Gives a disk a second name: whoever removes one of them leaves the disk to the other.
///
/// # Errors
/// When there is no such disk or `target` exists.
pub fn link(source: &Path, target: &Path) -> Result<(), ScratchError> {
    fs::hard_link(source, target).map_err(file_error("link", target))
}

/// A journal protects against losing power, checksums of the file system's own records against a disk that rots. A
/// scratch disk does not outlive its machine, and the guest would pay for both with every write. Tables that are
/// not in use yet stay unwritten: a copy is small.
fn format(path: &Path) -> Result<(), ScratchError> {
    let program =
        ["/usr/sbin/mkfs.ext4", "/sbin/mkfs.ext4"].into_iter().find(|path| Path::new(path).exists());
    let mut command = Command::new(program.unwrap_or("mkfs.ext4"));
    // SAFETY: a single system call, which may be made between fork and exec.
    // JUSTIFICATION: nothing else ends it with a supervisor that is killed; this thread waits for its end.
    unsafe { command.pre_exec(|| Ok(prctl::set_pdeathsig(Signal::SIGKILL)?)) };
    let output = command
        .args([
            "-q",
            "-F",
            "-b",
            "4096",
            "-m",
            "0",
            "-O",
            "^has_journal,^resize_inode,^metadata_csum,uninit_bg",
            "-L",
            "scratch",
        ])
        .arg(path)
        .stdin(Stdio::null())
        .output()
        .map_err(|error| match error.kind() {
            io::ErrorKind::NotFound => ScratchError::NoFormatter,
            _ => file_error("format", path)(error),
        })?;
    if output.status.success() {
        return Ok(());
    }
    let text = String::from_utf8_lossy(&output.stderr);
    let message = text.trim().lines().last().unwrap_or("no message").to_owned();
    Err(ScratchError::Format { message })
}

/// Copies the written parts of a file and leaves the rest a hole.
fn copy_sparse(source: &File, target: &File) -> io::Result<()> {
    let length = source.metadata()?.len();
    target.set_len(length)?;
    let mut buffer = vec![0_u8; 128 * 1024];
    let mut at = 0;
    while let Some((start, end)) = next_data(source, at)? {
        let mut position = start;
        while position < end {
            let want = usize::try_from(end - position).map_or(buffer.len(), |left| left.min(buffer.len()));
            let got = source.read_at(&mut buffer[..want], position)?;
            if got == 0 {
                break;
            }
            target.write_all_at(&buffer[..got], position)?;
            position += got as u64;
        }
        at = end;
    }
    Ok(())
}

#[cfg(test)]
mod tests;
