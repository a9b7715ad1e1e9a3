//! Writes one file in a guest, whole or not at all.

use std::io;

use rekindle_protocol::checksum::Checksum;
use rekindle_protocol::limits::CHUNK_BYTES;
use rekindle_protocol::piece::{Carrier, Piece};
use rekindle_protocol::wire::{
    TransferEnd, UploadPart, UploadRequest, request::Op, response::Reply, upload_part::Part,
};
use rekindle_protocol::{frame, mux};
use tokio::io::{AsyncRead, AsyncReadExt as _, AsyncWriteExt as _, WriteHalf};
use tokio::time::{timeout, timeout_at};

use super::client::{AgentClient, FILES_SINCE, Lane};
use super::digest::Summing;
use super::error::AgentError;
use super::file::FileInfo;
use super::metadata::FileMetadata;
use super::operation::Operation;
use super::path::GuestPath;
use super::patience::{TransferPatience, deadline};

/// The operation's name in errors.
const UPLOAD: &str = "upload";

/// How a file is written.
#[derive(Debug, Clone, Default)]
pub struct UploadOptions {
    /// Permission bits; 0 means 0644. See [`permissions`](super::permissions).
    pub mode: u32,
    /// Refuse when the path exists.
    pub must_not_exist: bool,
    /// Bytes that will follow, where that is known: room for them is set aside at once.
    pub size: Option<u64>,
    /// What the file's metadata is from now on; what it had before is gone.
    pub metadata: FileMetadata,
    /// Write into the file that is there, through links. What breaks off then leaves what had arrived.
    pub in_place: bool,
}

/// What was sent.
struct Content {
    /// Need not have come to its end: the agent does not wait for it.
    summing: Summing,
    checksum: u64,
    size: u64,
}

/// How sending came to its end.
enum Sent {
    All(Content),
    Stalled,
    Broken,
}

impl AgentClient {
    /// Writes everything `source` yields to a file. When it fails, or is abandoned, nothing is left behind, unless a
    /// file was written in place.
    ///
    /// # Errors
    /// See [`AgentError`]. Agents before protocol 3.7 know neither metadata nor writing in place, and are not asked.
    pub async fn upload(
        &self,
        path: &GuestPath,
        options: UploadOptions,
        source: impl AsyncRead + Unpin,
        patience: TransferPatience,
    ) -> Result<FileInfo, AgentError> {
        if options.in_place || !options.metadata.is_empty() {
            self.heeds(UPLOAD, "metadata and writing in place", FILES_SINCE)?;
        }
        let request = UploadRequest {
            path: path.to_wire(),
            mode: options.mode,
            must_not_exist: options.must_not_exist,
            size: options.size.unwrap_or(0),
            metadata: options.metadata.to_wire(),
            in_place: options.in_place,
            user: self.wire_user(UPLOAD)?,
        };
        let total = deadline(patience.total);
        let start = total.min(deadline(patience.stall));
        let mut operation = self.begin(UPLOAD, Lane::Transfer, Op::Upload(request), start).await?;
        let transfer = timeout_at(total, transfer(&mut operation, source, patience)).await;
        let (info, sent) = transfer.unwrap_or_else(|_| Err(operation.silent()))?;
        if info.checksum != sent.checksum || info.size != sent.size {
            return Err(AgentError::Corrupted { operation: UPLOAD });
        }
        let info = FileInfo::of(path, &info).map_err(|what| operation.violated(what))?;
        let sha256 = sent.summing.finish().await.map_err(AgentError::Source)?;
        Ok(FileInfo { sha256: Some(sha256), ..info })
    }

    /// Writes these bytes to a file.
    ///
    /// # Errors
    /// See [`AgentError`].
    pub async fn upload_bytes(
        &self,
        path: &GuestPath,
        options: UploadOptions,
        content: &[u8],
        patience: TransferPatience,
    ) -> Result<FileInfo, AgentError> {
        let options = UploadOptions { size: Some(content.len() as u64), ..options };
        self.upload(path, options, content, patience).await
    }
}

/// Sends the content and receives the answer, which may be a refusal at any time.
async fn transfer(
    operation: &mut Operation,
    source: impl AsyncRead + Unpin,
    patience: TransferPatience,
) -> Result<(rekindle_protocol::wire::FileInfo, Content), AgentError> {
    let Some(writer) = operation.take_writer() else {
        return Err(operation.invalid("it has been sent already"));
    };
    // Held to the end: the agent takes the end of our half for a transfer that was cut.
    let mut writer = writer;
    let sent = {
        let sending = send(&mut writer, source, patience);
        tokio::pin!(sending);
        tokio::select! {
            sent = &mut sending => sent?,
            early = operation.receive(None) => return match early {
                Ok(Reply::File(_)) => Err(operation.violated("an upload acknowledged before its end")),
                Ok(other) => Err(operation.unexpected(&other)),
                Err(error) => Err(error),
            },
        }
    };
    let content = match sent {
        Sent::All(content) => content,
        Sent::Stalled => return Err(operation.silent()),
        Sent::Broken => return Err(operation.last_words().await),
    };
    match operation.receive(Some(deadline(patience.stall))).await? {
        Reply::File(info) => Ok((info, content)),
        other => Err(operation.unexpected(&other)),
    }
}

async fn send(
    writer: &mut WriteHalf<mux::Stream>,
    mut source: impl AsyncRead + Unpin,
    patience: TransferPatience,
) -> Result<Sent, AgentError> {
    let mut summing = Summing::default();
    let mut checksum = Checksum::default();
    let mut size = 0u64;
    loop {
        let mut piece = Piece::with_capacity(CHUNK_BYTES);
        let mut next = (&mut source).take(CHUNK_BYTES as u64);
        if next.read_buf(piece.tail()).await.map_err(AgentError::Source)? == 0 {
            break;
        }
        let framed = piece.framed(Carrier::UploadPart);
        let (data, frame) = framed.map_err(|error| AgentError::Source(io::Error::other(error)))?;
        summing.add(&data).await;
        checksum.update(&data);
        size += data.len() as u64;
        match timeout(patience.stall, writer.write_all(&frame)).await {
            Ok(Ok(())) => {}
            Ok(Err(_)) => return Ok(Sent::Broken),
            Err(_) => return Ok(Sent::Stalled),
        }
    }
    let checksum = checksum.finish();
    let end = UploadPart { part: Some(Part::End(TransferEnd { size, checksum })) };
    Ok(match timeout(patience.stall, frame::write(writer, &end)).await {
        Ok(Ok(())) => Sent::All(Content { summing, checksum, size }),
        Ok(Err(_)) => Sent::Broken,
        Err(_) => Sent::Stalled,
    })
}

#[cfg(test)]
mod tests;
