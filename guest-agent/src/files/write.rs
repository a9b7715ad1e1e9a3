//! Writes what an upload brings: into a temporary name beside its target, checked, then renamed; or into the file that
//! is there. For `upload` alone.

use std::ffi::{CStr, CString};
use std::fs::File;
use std::io::{self, Write};
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::fs::MetadataExt as _;

use bytes::Bytes;
use nix::errno::Errno;
use nix::fcntl::{AtFlags, FallocateFlags, OFlag, RenameFlags, fallocate, openat, renameat, renameat2};
use nix::sys::stat::{Mode, SFlag, fchmod, fstatat};
use nix::sys::statvfs::fstatvfs;
use nix::unistd::{UnlinkatFlags, fdatasync, unlinkat};
use rekindle_protocol::wire::{ErrorCode, FileInfo, FileMetadata, TransferEnd, UploadRequest};
use tokio::sync::mpsc;

use crate::exec::{Account, AccountNames};
use crate::failure::Failure;
use crate::files::info;
use crate::files::location::Location;
use crate::files::metadata::Attributes;

/// From this size on room is set aside: for a small file it would cost more than it saves.
const RESERVED_FROM: i64 = 1024 * 1024;

/// What the names of unfinished uploads begin with.
pub const TEMPORARY_PREFIX: &str = ".rekindle-upload-";

/// What the stream's task hands to the worker.
pub enum Piece {
    /// Bytes of the file.
    Data(Bytes),
    /// The end as the host announced it, and the checksum of what arrived.
    End(TransferEnd, u64),
}

/// A file that was written.
pub struct Written {
    /// What it is now.
    pub info: FileInfo,
    /// Keeps what had its name before, until the host has been told: giving back the space of a large file takes
    /// longer than everything else at the end of an upload.
    pub replaced: Option<OwnedFd>,
}

/// Writes the pieces. `None` when they stop before the end.
///
/// # Errors
/// What the system says, and that other bytes arrived than were sent.
pub fn write(
    (account, names): (&Account, &AccountNames),
    request: &UploadRequest,
    mut pieces: mpsc::Receiver<Piece>,
) -> Result<Option<Written>, Failure> {
    let at = Location::parse(&request.path, account)?;
    let present = if request.in_place && !request.must_not_exist { present(&at, request)? } else { None };
    let done = match present {
        Some(file) => in_place(&at, request, file, &mut pieces)?,
        None => replacing(&at, request, &mut pieces)?,
    };
    let Some((file, checksum, replaced)) = done else { return Ok(None) };
    let info = info::of_open(request.path.clone(), &file, names).map_err(|error| at.failure(error))?;
    Ok(Some(Written { info: FileInfo { checksum, ..info }, replaced }))
}

/// The file that was written, the checksum of its content, and what had its name before.
type Done = Option<(File, u64, Option<OwnedFd>)>;

/// Writes a file of its own that then takes the name: nothing is left behind when the pieces stop before the end.
fn replacing(
    at: &Location,
    request: &UploadRequest,
    pieces: &mut mpsc::Receiver<Piece>,
) -> Result<Done, Failure> {
    let (dir, name) = at.make_parent()?;
    let temporary = Temporary::create(&dir).map_err(|error| at.failure(error))?;
    reserve(&temporary.file, FallocateFlags::empty(), request.size).map_err(|error| at.failure(error))?;
    if !request.metadata.is_empty() {
        note(at, &temporary.file, &request.metadata)?;
    }
    let Some((size, checksum)) = receive(at, &temporary.file, pieces)? else { return Ok(None) };
    if request.size != 0 && size != request.size {
        // It was made as long as announced, which need not be the truth.
        temporary.file.set_len(size).map_err(|error| at.failure(error))?;
    }
    // A disk that fails says so only here; what was answered without asking it might be another file later.
    fdatasync(&temporary.file).map_err(|error| at.failure(error))?;
    fchmod(&temporary.file, mode(request)).map_err(|error| at.failure(error))?;
    // Not there, most of the time; and if it cannot be kept, the upload takes a little longer.
    let kept = OFlag::O_PATH | OFlag::O_NOFOLLOW | OFlag::O_CLOEXEC;
    let replaced = openat(&dir, name.as_c_str(), kept, Mode::empty()).ok();
    let file = temporary.publish(&name, request.must_not_exist).map_err(|error| at.failure(error))?;
    Ok(Some((file, checksum, replaced)))
}

/// Writes into a file that is there. When the pieces stop before the end it has what had arrived, and its metadata is the
/// new one.
fn in_place(
    at: &Location,
    request: &UploadRequest,
    file: File,
    pieces: &mut mpsc::Receiver<Piece>,
) -> Result<Done, Failure> {
    // First, so that neither a size that does not fit nor metadata that cannot be kept costs content.
    fits(&file, request.size).map_err(|error| at.failure(error))?;
    note(at, &file, &request.metadata)?;
    file.set_len(0).map_err(|error| at.failure(error))?;
    // Without its length: what breaks off ends where it did.
    reserve(&file, FallocateFlags::FALLOC_FL_KEEP_SIZE, request.size).map_err(|error| at.failure(error))?;
    let Some((_, checksum)) = receive(at, &file, pieces)? else { return Ok(None) };
    fdatasync(&file).map_err(|error| at.failure(error))?;
    Ok(Some((file, checksum, None)))
}

/// The file that a path leads to, opened for writing; one that a link there leads to is made if it is missing. `None`
/// where there is nothing.
fn present(at: &Location, request: &UploadRequest) -> Result<Option<File>, Failure> {
    // Without blocking: a pipe nobody reads must not hold up the worker.
    let flags = OFlag::O_WRONLY | OFlag::O_NONBLOCK;
    let file = match at.try_open(flags) {
        Ok(file) => File::from(file),
        Err(Errno::ENOENT) => match at.parent() {
            Ok((dir, name)) if is_link(&dir, &name) => {
                let made = File::from(at.create(flags | OFlag::O_CREAT, Mode::S_IRUSR | Mode::S_IWUSR)?);
                fchmod(&made, mode(request)).map_err(|error| at.failure(error))?;
                made
            }
            _ => return Ok(None),
        },
        Err(error) => return Err(at.failure(error)),
    };
    if !file.metadata().map_err(|error| at.failure(error))?.is_file() {
        return Err(Failure::invalid(format!("{} is no file", at.path().display())));
    }
    Ok(Some(file))
}

fn is_link(dir: &OwnedFd, name: &CStr) -> bool {
    let stat = fstatat(dir, name, AtFlags::AT_SYMLINK_NOFOLLOW);
    stat.is_ok_and(|stat| SFlag::from_bits_truncate(stat.st_mode & SFlag::S_IFMT.bits()) == SFlag::S_IFLNK)
}

fn mode(request: &UploadRequest) -> Mode {
    Mode::from_bits_retain(if request.mode == 0 { 0o644 } else { request.mode & 0o777 })
}

/// Writes the pieces to a file, and returns how many bytes they had and their checksum.
fn receive(
    at: &Location,
    mut file: &File,
    pieces: &mut mpsc::Receiver<Piece>,
) -> Result<Option<(u64, u64)>, Failure> {
    let mut size = 0;
    let (end, checksum) = loop {
        match pieces.blocking_recv() {
            None => return Ok(None),
            Some(Piece::End(end, checksum)) => break (end, checksum),
            Some(Piece::Data(data)) => {
                size += data.len() as u64;
                file.write_all(&data).map_err(|error| at.failure(error))?;
            }
        }
    };
    if end.checksum != checksum || end.size != size {
        let message = format!("{size} bytes arrived and are not the {} that were sent", end.size);
        return Err(Failure::new(ErrorCode::ChecksumMismatch, message));
    }
    Ok(Some((size, checksum)))
}

/// Makes this a file's metadata.
fn note(at: &Location, file: &File, metadata: &[FileMetadata]) -> Result<(), Failure> {
    let attributes = Attributes::of_open(file).map_err(|error| at.failure(error))?;
    attributes.replace(metadata).map_err(|error| match error {
        Errno::EOPNOTSUPP => {
            Failure::invalid(format!("{}: its file system keeps no metadata", at.path().display()))
        }
        error => at.failure(error),
    })
}

/// Whether so many bytes fit in place of what a file has. Asked and not tried: setting room aside could fill the disk
/// before it fails. File systems without bounds say that they have no blocks.
fn fits(file: &File, size: u64) -> io::Result<()> {
    /// Bytes of the unit in which files tell what they hold, on every file system.
    const HELD: u64 = 512;
    let system = fstatvfs(file)?;
    let free = system.blocks_free().saturating_mul(system.fragment_size());
    let held = file.metadata()?.blocks().saturating_mul(HELD);
    if system.blocks() > 0 && size > free.saturating_add(held) { Err(Errno::ENOSPC.into()) } else { Ok(()) }
}

/// Sets room aside, where the file system can: what does not fit is refused before it is sent, and the kernel has
/// less to do for every page that is written. Above all it need not note the file's new length each time.
fn reserve(file: &File, flags: FallocateFlags, size: u64) -> nix::Result<()> {
    match i64::try_from(size) {
        Ok(size @ RESERVED_FROM..) => match fallocate(file, flags, 0, size) {
            Err(error @ Errno::ENOSPC) => Err(error),
            _ => Ok(()),
        },
        _ => Ok(()),
    }
}

/// A file under a name nobody asked for, removed unless it is published.
struct Temporary<'a> {
    dir: &'a OwnedFd,
    name: CString,
    file: File,
    published: bool,
}

impl<'a> Temporary<'a> {
    fn create(dir: &'a OwnedFd) -> nix::Result<Self> {
        let mut random = [0u8; 8];
        getrandom::fill(&mut random).map_err(|_| Errno::EIO)?;
        let name = format!("{TEMPORARY_PREFIX}{:016x}", u64::from_ne_bytes(random));
        let name = CString::new(name).map_err(|_| Errno::EINVAL)?;
        let flags = OFlag::O_WRONLY | OFlag::O_CREAT | OFlag::O_EXCL | OFlag::O_NOFOLLOW | OFlag::O_CLOEXEC;
        let file = openat(dir, name.as_c_str(), flags, Mode::from_bits_retain(0o600))?.into();
        Ok(Self { dir, name, file, published: false })
    }

    fn publish(mut self, name: &CStr, must_not_exist: bool) -> nix::Result<File> {
        let dir = self.dir.as_fd();
        if must_not_exist {
            renameat2(dir, self.name.as_c_str(), dir, name, RenameFlags::RENAME_NOREPLACE)?;
        } else {
            renameat(dir, self.name.as_c_str(), dir, name)?;
        }
        self.published = true;
        self.file.try_clone().map_err(|_| Errno::EMFILE)
    }
}

impl Drop for Temporary<'_> {
    fn drop(&mut self) {
        if !self.published {
            let _ = unlinkat(self.dir, self.name.as_c_str(), UnlinkatFlags::NoRemoveDir);
        }
    }
}
