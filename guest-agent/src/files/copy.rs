//! Copies a file or a tree to another file system, under a name nobody asked for until it is whole. For `rename`
//! alone.
//!
//! A copy has the content, the permissions, the times and, where its file system keeps them, the metadata of what it
//! was made from. Devices, pipes, sockets and other
//! file systems mounted inside stay where they are: a tree that holds one is not copied.

use std::ffi::{CStr, CString};
use std::fs::File;
use std::io::{self, Read, Seek, SeekFrom, Write};
use std::os::fd::{AsFd, OwnedFd};
use std::sync::atomic::{AtomicBool, Ordering};

use nix::dir::Dir;
use nix::errno::Errno;
use nix::fcntl::{AtFlags, OFlag, openat, readlinkat};
use nix::sys::stat::{FileStat, Mode, SFlag, fchmod, fstatat, futimens, mkdirat};
use nix::sys::time::TimeSpec;
use nix::unistd::{fdatasync, symlinkat, syncfs};

use crate::files::metadata::Attributes;
use crate::files::remove;

/// Directories below each other; two descriptors are held for each.
const MAX_DEPTH: u32 = 128;
/// Bytes copied at once. A run of so many zeros becomes a hole.
const BLOCK: usize = 128 * 1024;

/// A whole copy, removed unless it is published.
pub struct Copy<'a> {
    dir: &'a OwnedFd,
    name: CString,
    published: bool,
}

impl<'a> Copy<'a> {
    /// Copies `name` in `from` into `dir`, where it has a name of its own.
    ///
    /// # Errors
    /// What the system says; `EXDEV` when something in it cannot be copied, `ECANCELED` after `stop`.
    pub fn make(from: &OwnedFd, name: &CStr, dir: &'a OwnedFd, stop: &AtomicBool) -> io::Result<Self> {
        let mut random = [0u8; 8];
        getrandom::fill(&mut random).map_err(|_| Errno::EIO)?;
        let own = CString::new(format!(".rekindle-move-{:016x}", u64::from_ne_bytes(random)))?;
        let copy = Self { dir, name: own, published: false };
        let device = fstatat(from, name, AtFlags::AT_SYMLINK_NOFOLLOW)?.st_dev;
        let made = Walk { device, stop }.entry((from, name), (dir, &copy.name), 0)?;
        // A disk that fails says so only here, and the original must still be there then.
        match made {
            Some(Made::File(file)) => fdatasync(&file)?,
            Some(Made::Directory(directory)) => syncfs(&directory)?,
            None => {}
        }
        Ok(copy)
    }

    /// The name it has until it is published.
    pub fn name(&self) -> &CStr {
        &self.name
    }

    /// It has its own name by now, and stays.
    pub fn published(mut self) {
        self.published = true;
    }
}

impl Drop for Copy<'_> {
    fn drop(&mut self) {
        if !self.published {
            let _ = remove::entry(self.dir, &self.name);
        }
    }
}

/// What was made of an entry, still open. A link cannot be opened.
enum Made {
    File(File),
    Directory(OwnedFd),
}

struct Walk<'a> {
    /// The file system the copy is made from.
    device: u64,
    stop: &'a AtomicBool,
}

impl Walk<'_> {
    fn entry(
        &self,
        (from, name): (&OwnedFd, &CStr),
        (to, own): (&OwnedFd, &CStr),
        depth: u32,
    ) -> io::Result<Option<Made>> {
        let stat = fstatat(from, name, AtFlags::AT_SYMLINK_NOFOLLOW)?;
        match SFlag::from_bits_truncate(stat.st_mode & SFlag::S_IFMT.bits()) {
            SFlag::S_IFLNK => {
                symlinkat(readlinkat(from, name)?.as_os_str(), to, own)?;
                Ok(None)
            }
            SFlag::S_IFREG => self.file((from, name), (to, own), &stat).map(|file| Some(Made::File(file))),
            // Only directories are asked for their device: an overlay shows files with those of its layers.
            SFlag::S_IFDIR if stat.st_dev == self.device && depth < MAX_DEPTH => {
                mkdirat(to, own, Mode::S_IRWXU)?;
                let flags = OFlag::O_RDONLY | OFlag::O_DIRECTORY | OFlag::O_NOFOLLOW | OFlag::O_CLOEXEC;
                let source = openat(from, name, flags, Mode::empty())?;
                let made = openat(to, own, flags, Mode::empty())?;
                for entry in Dir::from_fd(source.try_clone()?)?.iter() {
                    let entry = entry?;
                    let name = entry.file_name();
                    if name != c"." && name != c".." {
                        self.entry((&source, name), (&made, name), depth + 1)?;
                    }
                }
                dress(&made, &source, &stat, 0o1777)?;
                Ok(Some(Made::Directory(made)))
            }
            _ => Err(Errno::EXDEV.into()),
        }
    }

    fn file(
        &self,
        (from, name): (&OwnedFd, &CStr),
        (to, own): (&OwnedFd, &CStr),
        stat: &FileStat,
    ) -> io::Result<File> {
        // Without blocking: a pipe in its place must not hold up the worker.
        let careful = OFlag::O_NOFOLLOW | OFlag::O_CLOEXEC | OFlag::O_NONBLOCK | OFlag::O_NOCTTY;
        let mut source = File::from(openat(from, name, OFlag::O_RDONLY | careful, Mode::empty())?);
        let flags = OFlag::O_WRONLY | OFlag::O_CREAT | OFlag::O_EXCL | careful;
        let mut made = File::from(openat(to, own, flags, Mode::S_IRUSR | Mode::S_IWUSR)?);
        let mut block = vec![0; BLOCK];
        let mut size = 0;
        loop {
            if self.stop.load(Ordering::Relaxed) {
                return Err(Errno::ECANCELED.into());
            }
            let read = source.read(&mut block)?;
            if read == 0 {
                break;
            }
            size += read as u64;
            if block[..read].iter().all(|byte| *byte == 0) {
                made.seek(SeekFrom::Start(size))?;
            } else {
                made.write_all(&block[..read])?;
            }
        }
        made.set_len(size)?;
        dress(&made, &source, stat, 0o777)?;
        Ok(made)
    }
}

/// Gives a copy the metadata, the permissions and the times of its original.
fn dress(made: impl AsFd, original: impl AsFd, stat: &FileStat, bits: u32) -> io::Result<()> {
    match Attributes::of_open(&made)?.replace(&Attributes::of_open(&original)?.read()) {
        Ok(()) | Err(Errno::EOPNOTSUPP) => {}
        Err(error) => return Err(error.into()),
    }
    fchmod(&made, Mode::from_bits_retain(stat.st_mode & bits))?;
    let accessed = TimeSpec::new(stat.st_atime, stat.st_atime_nsec);
    let modified = TimeSpec::new(stat.st_mtime, stat.st_mtime_nsec);
    Ok(futimens(made, &accessed, &modified)?)
}
