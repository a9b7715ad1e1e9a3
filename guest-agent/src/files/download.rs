//! Reads one file, or a directory as a tar archive, piece by piece with a checksum at the end.
//!
//! A worker thread reads, hashes and makes whole frames, the stream's task sends them; a small queue between them
//! holds back a fast disk, and a host that goes away ends both.

use std::fs::File;
use std::io::{self, Write};
use std::os::fd::AsRawFd;
use std::sync::Arc;

use bytes::{Bytes, BytesMut};
use nix::errno::Errno;
use nix::fcntl::OFlag;
use rekindle_protocol::checksum::Checksum;
use rekindle_protocol::frame;
use rekindle_protocol::limits::CHUNK_BYTES;
use rekindle_protocol::mux::Stream;
use rekindle_protocol::piece::{Carrier, Piece};
use rekindle_protocol::wire::response::Reply;
use rekindle_protocol::wire::{Chunk, DownloadRequest, ErrorCode, FileInfo, FileKind, TransferEnd};
use tokio::io::AsyncWriteExt;
use tokio::sync::mpsc;

use crate::agent::Agent;
use crate::exec::{Account, AccountNames};
use crate::failure::Failure;
use crate::files::location::Location;
use crate::files::{archive, info, worker};
use crate::session::{reply, response};

/// Pieces that may wait for the host.
const BACKLOG: usize = 4;

/// Carries out a download request on its stream.
pub async fn download(agent: &Arc<Agent>, request: DownloadRequest, mut stream: Stream) {
    let ticket = match worker::admit(agent, &request.user).await {
        Ok(ticket) => ticket,
        Err(failure) => return reply(stream, failure.into_response()).await,
    };
    let (pieces, mut outgoing) = mpsc::channel(BACKLOG);
    let reading =
        tokio::spawn(worker::run(ticket, move |account, names| read((account, names), &request, pieces)));
    while let Some(next) = outgoing.recv().await {
        let sent = async {
            stream.write_all(&next).await?;
            stream.flush().await
        };
        if sent.await.is_err() {
            // Dropping the queue stops the worker.
            return;
        }
    }
    match reading.await {
        Ok(Ok(())) => {
            let _ = stream.shutdown().await;
        }
        Ok(Err(failure)) => reply(stream, failure.into_response()).await,
        Err(error) => {
            reply(stream, Failure::new(ErrorCode::Internal, error.to_string()).into_response()).await;
        }
    }
}

fn read(
    (account, names): (&Account, &AccountNames),
    request: &DownloadRequest,
    pieces: mpsc::Sender<Bytes>,
) -> Result<(), Failure> {
    let at = Location::parse(&request.path, account)?;
    // Without blocking: a pipe nobody writes to must not hold up the worker.
    let file = File::from(at.open(OFlag::O_RDONLY | OFlag::O_NONBLOCK)?);
    let info = info::of_open(request.path.clone(), &file, names).map_err(|error| at.failure(error))?;
    let kind = FileKind::try_from(info.kind).unwrap_or_default();
    if kind == FileKind::Other {
        return Err(Failure::invalid(format!("{} is neither a file nor a directory", at.path().display())));
    }
    let mut sink = Sink::new(pieces, request.max_bytes);
    sink.announce(info).map_err(|error| at.failure(error))?;
    let copied = match kind {
        FileKind::Directory => archive::write(&file, at.path(), &mut sink),
        _ => copy(&file, &mut sink),
    };
    match copied.and_then(|()| sink.flush()) {
        Ok(()) => sink.finish().map_err(|error| at.failure(error)),
        Err(_) if sink.overflown => {
            let message = format!("{} has more than {} bytes", at.path().display(), request.max_bytes);
            Err(Failure::new(ErrorCode::TooLarge, message))
        }
        Err(error) => Err(at.failure(error)),
    }
}

/// Copies a file, whose pieces need not be put together first.
fn copy(file: &File, sink: &mut Sink) -> io::Result<()> {
    loop {
        let mut piece = Piece::with_capacity(CHUNK_BYTES);
        if fill(file, piece.tail())? == 0 {
            return Ok(());
        }
        let (data, frame) = piece.framed(Carrier::Response).map_err(io::Error::other)?;
        sink.count(&data)?;
        sink.send_frame(frame)?;
    }
}

/// Reads as much as there is room for, with one call. Nobody has written to that room yet, and nobody need zero it.
fn fill(file: &File, buffer: &mut BytesMut) -> io::Result<usize> {
    let room = buffer.spare_capacity_mut();
    let read = loop {
        // SAFETY: the room is ours and as long as is said, and the kernel does nothing but write to it.
        // JUSTIFICATION: the standard library reads into memory that was written to before.
        let read = unsafe { libc::read(file.as_raw_fd(), room.as_mut_ptr().cast(), room.len()) };
        match Errno::result(read) {
            Err(Errno::EINTR) => {}
            read => break usize::try_from(read?).unwrap_or(0),
        }
    };
    // SAFETY: the kernel has written so many bytes behind those that were there.
    // JUSTIFICATION: only the caller of `read` knows that.
    unsafe { buffer.set_len(buffer.len() + read) };
    Ok(read)
}

/// Turns bytes into chunks for the host, counting and summing them up.
struct Sink {
    pieces: mpsc::Sender<Bytes>,
    waiting: Vec<u8>,
    checksum: Checksum,
    size: u64,
    most: u64,
    overflown: bool,
}

impl Sink {
    fn new(pieces: mpsc::Sender<Bytes>, most: u64) -> Self {
        let most = if most == 0 { u64::MAX } else { most };
        Self { pieces, waiting: Vec::new(), checksum: Checksum::default(), size: 0, most, overflown: false }
    }

    fn announce(&self, info: FileInfo) -> io::Result<()> {
        self.send(Reply::File(info))
    }

    fn finish(self) -> io::Result<()> {
        let end = TransferEnd { size: self.size, checksum: self.checksum.finish() };
        self.send(Reply::End(end))
    }

    fn send(&self, reply: Reply) -> io::Result<()> {
        self.send_frame(frame::encode(&response(reply)).map_err(io::Error::other)?)
    }

    fn send_frame(&self, frame: Bytes) -> io::Result<()> {
        self.pieces.blocking_send(frame).map_err(|_| io::ErrorKind::BrokenPipe.into())
    }

    /// Sums up the next bytes, unless they are too many.
    fn count(&mut self, bytes: &[u8]) -> io::Result<()> {
        self.size += bytes.len() as u64;
        if self.size > self.most {
            self.overflown = true;
            return Err(io::ErrorKind::FileTooLarge.into());
        }
        self.checksum.update(bytes);
        Ok(())
    }
}

impl Write for Sink {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.count(bytes)?;
        self.waiting.extend_from_slice(bytes);
        if self.waiting.len() >= CHUNK_BYTES {
            self.flush()?;
        }
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        if self.waiting.is_empty() {
            return Ok(());
        }
        let data = std::mem::take(&mut self.waiting).into();
        self.send(Reply::Chunk(Chunk { data }))
    }
}
