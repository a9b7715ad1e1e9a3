//! Writes one file, whole or not at all: into a temporary name beside it, checked, then renamed.
//!
//! The stream's task reads frames and sums them up, a worker thread writes: two processors share the work. A small
//! queue between them holds back a fast host.

use std::ffi::{CStr, CString};
use std::fs::File;
use std::io::Write;
use std::os::fd::{AsFd, OwnedFd};
use std::sync::Arc;

use bytes::Bytes;
use nix::errno::Errno;
use nix::fcntl::{FallocateFlags, OFlag, RenameFlags, fallocate, openat, renameat, renameat2};
use nix::sys::stat::{Mode, fchmod};
use nix::unistd::{UnlinkatFlags, fdatasync, unlinkat};
use rekindle_protocol::checksum::Checksum;
use rekindle_protocol::frame::{self, FrameError};
use rekindle_protocol::limits::MAX_CHUNK_BYTES;
use rekindle_protocol::mux::Stream;
use rekindle_protocol::wire::response::Reply;
use rekindle_protocol::wire::upload_part::Part;
use rekindle_protocol::wire::{ErrorCode, FileInfo, TransferEnd, UploadPart, UploadRequest};
use tokio::sync::mpsc;

use crate::agent::Agent;
use crate::exec::Account;
use crate::failure::Failure;
use crate::files::location::Location;
use crate::files::{info, worker};
use crate::session::{reply, response};

/// From this size on room is set aside: for a small file it would cost more than it saves.
const RESERVED_FROM: i64 = 1024 * 1024;
/// Pieces that may wait for the disk.
const BACKLOG: usize = 4;

/// What the names of unfinished uploads begin with.
pub const TEMPORARY_PREFIX: &str = ".rekindle-upload-";

/// Carries out an upload request on its stream.
pub async fn upload(agent: &Arc<Agent>, request: UploadRequest, mut stream: Stream) {
    match receive(agent, request, &mut stream).await {
        Ok(Some(Written { info, replaced })) => {
            reply(stream, response(Reply::File(info))).await;
            let _ = tokio::task::spawn_blocking(move || drop(replaced)).await;
        }
        // The host gave up; nobody is left to tell.
        Ok(None) => {}
        Err(failure) => reply(stream, failure.into_response()).await,
    }
}

/// What the stream's task hands to the worker.
enum Piece {
    Data(Bytes),
    /// The end as the host announced it, and the checksum of what arrived.
    End(TransferEnd, u64),
}

/// A file that was written.
struct Written {
    info: FileInfo,
    /// Keeps what had its name before, until the host has been told: giving back the space of a large file takes
    /// longer than everything else at the end of an upload.
    replaced: Option<OwnedFd>,
}

async fn receive(
    agent: &Arc<Agent>,
    request: UploadRequest,
    stream: &mut Stream,
) -> Result<Option<Written>, Failure> {
    let ticket = worker::admit(agent).await?;
    let most = ticket.sandbox.upload_bytes;
    if request.size > most {
        return Err(too_large(most));
    }
    let (pieces, incoming) = mpsc::channel(BACKLOG);
    let mut writing = tokio::spawn(worker::run(ticket, move |account| write(account, &request, incoming)));
    let forward = async {
        let mut total = 0;
        let mut checksum = Checksum::default();
        loop {
            let part = match frame::read::<UploadPart>(stream).await {
                Ok(Some(UploadPart { part: Some(part) })) => part,
                Ok(Some(UploadPart { part: None })) => {
                    return Err(Failure::invalid("an upload part is empty"));
                }
                Ok(None) | Err(FrameError::Io(_) | FrameError::Truncated) => return Ok(()),
                Err(error) => return Err(Failure::invalid(error.to_string())),
            };
            let piece = match part {
                Part::Chunk(chunk) => {
                    total += chunk.data.len() as u64;
                    if chunk.data.len() > MAX_CHUNK_BYTES || total > most {
                        return Err(too_large(most));
                    }
                    checksum.update(&chunk.data);
                    Piece::Data(chunk.data)
                }
                Part::End(end) => Piece::End(end, checksum.finish()),
            };
            let last = matches!(piece, Piece::End(..));
            if pieces.send(piece).await.is_err() || last {
                return Ok(());
            }
        }
    };
    // The worker may fail, on a full disk for example, while the host is still sending.
    let refused = tokio::select! {
        outcome = &mut writing => return joined(outcome),
        forwarded = forward => forwarded.err(),
    };
    drop(pieces);
    let outcome = joined(writing.await);
    refused.map_or(outcome, Err)
}

fn too_large(most: u64) -> Failure {
    let message = format!("a file may have {most} bytes here, a piece {MAX_CHUNK_BYTES}");
    Failure::new(ErrorCode::TooLarge, message)
}

fn joined(
    outcome: Result<Result<Option<Written>, Failure>, tokio::task::JoinError>,
) -> Result<Option<Written>, Failure> {
    outcome.unwrap_or_else(|error| Err(Failure::new(ErrorCode::Internal, error.to_string())))
}

/// Writes the pieces. `None` when they stop before the end: nothing is left behind then.
fn write(
    account: &Account,
    request: &UploadRequest,
    mut pieces: mpsc::Receiver<Piece>,
) -> Result<Option<Written>, Failure> {
    let at = Location::parse(&request.path, account)?;
    let (dir, name) = at.make_parent()?;
    let temporary = Temporary::create(&dir).map_err(|error| at.failure(error))?;
    reserve(&temporary.file, request.size).map_err(|error| at.failure(error))?;
    let mut file = &temporary.file;
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
    if request.size != 0 && size != request.size {
        // It was made as long as announced, which need not be the truth.
        temporary.file.set_len(size).map_err(|error| at.failure(error))?;
    }
    // A disk that fails says so only here; what was answered without asking it might be another file later.
    fdatasync(&temporary.file).map_err(|error| at.failure(error))?;
    let mode = if request.mode == 0 { 0o644 } else { request.mode & 0o777 };
    fchmod(&temporary.file, Mode::from_bits_retain(mode)).map_err(|error| at.failure(error))?;
    // Not there, most of the time; and if it cannot be kept, the upload takes a little longer.
    let kept = OFlag::O_PATH | OFlag::O_NOFOLLOW | OFlag::O_CLOEXEC;
    let replaced = openat(&dir, name.as_c_str(), kept, Mode::empty()).ok();
    let file = temporary.publish(&name, request.must_not_exist).map_err(|error| at.failure(error))?;
    let info = info::of_open(request.path.clone(), &file).map_err(|error| at.failure(error))?;
    Ok(Some(Written { info: FileInfo { checksum, ..info }, replaced }))
}

/// Sets room aside, where the file system can: what does not fit is refused before it is sent, and the kernel has
/// less to do for every page that is written. Above all it need not note the file's new length each time.
fn reserve(file: &File, size: u64) -> nix::Result<()> {
    match i64::try_from(size) {
        Ok(size @ RESERVED_FROM..) => match fallocate(file, FallocateFlags::empty(), 0, size) {
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
