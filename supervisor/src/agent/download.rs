//! Reads one file of a guest's, or a directory as a tar archive.

use rekindle_protocol::checksum::Checksum;
use rekindle_protocol::limits::MAX_CHUNK_BYTES;
use rekindle_protocol::wire::{DownloadRequest, request::Op, response::Reply};
use serde::Serialize;
use tokio::io::{AsyncWrite, AsyncWriteExt as _};
use tokio::time::timeout_at;

use super::client::{AgentClient, Lane};
use super::digest::{Digest, Summing};
use super::error::AgentError;
use super::file::FileInfo;
use super::operation::Operation;
use super::path::GuestPath;
use super::patience::{TransferPatience, deadline};

/// The operation's name in errors.
const DOWNLOAD: &str = "download";

/// A finished download.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Downloaded {
    /// What was downloaded. For a directory the content is a tar archive of it.
    pub info: FileInfo,
    /// Bytes of content.
    pub size: u64,
    /// Their SHA-256.
    pub sha256: Digest,
}

impl AgentClient {
    /// Writes a file's content to `sink`, at most `max_bytes` of it. What was written before an error must be
    /// thrown away by the caller.
    ///
    /// # Errors
    /// See [`AgentError`].
    pub async fn download(
        &self,
        path: &GuestPath,
        max_bytes: u64,
        sink: impl AsyncWrite + Unpin,
        patience: TransferPatience,
    ) -> Result<Downloaded, AgentError> {
        // On the wire 0 means no limit; here it means nothing but empty files.
        let user = self.wire_user(DOWNLOAD)?;
        let request = DownloadRequest { path: path.to_wire(), max_bytes: max_bytes.max(1), user };
        let total = deadline(patience.total);
        let start = total.min(deadline(patience.stall));
        let mut operation = self.begin(DOWNLOAD, Lane::Transfer, Op::Download(request), start).await?;
        let transfer = timeout_at(total, receive(&mut operation, path, max_bytes, sink, patience)).await;
        transfer.unwrap_or_else(|_| Err(operation.silent()))
    }
}

async fn receive(
    operation: &mut Operation,
    path: &GuestPath,
    max_bytes: u64,
    mut sink: impl AsyncWrite + Unpin,
    patience: TransferPatience,
) -> Result<Downloaded, AgentError> {
    let info = match operation.receive(Some(deadline(patience.stall))).await? {
        Reply::File(info) => FileInfo::of(path, &info).map_err(|what| operation.violated(what))?,
        other => return Err(operation.unexpected(&other)),
    };
    let mut summing = Summing::default();
    let mut checksum = Checksum::default();
    let mut size = 0u64;
    let end = loop {
        let chunk = match operation.receive(Some(deadline(patience.stall))).await? {
            Reply::Chunk(chunk) => chunk.data,
            Reply::End(end) => break end,
            other => return Err(operation.unexpected(&other)),
        };
        if chunk.is_empty() || chunk.len() > MAX_CHUNK_BYTES {
            return Err(operation.violated("a piece of a file of impossible size"));
        }
        size += chunk.len() as u64;
        if size > max_bytes {
            return Err(AgentError::TooLarge { operation: DOWNLOAD, limit: max_bytes });
        }
        summing.add(&chunk).await;
        checksum.update(&chunk);
        sink.write_all(&chunk).await.map_err(AgentError::Sink)?;
    };
    if end.size != size || end.checksum != checksum.finish() {
        return Err(AgentError::Corrupted { operation: DOWNLOAD });
    }
    sink.flush().await.map_err(AgentError::Sink)?;
    let sha256 = summing.finish().await.map_err(AgentError::Sink)?;
    Ok(Downloaded { info, size, sha256 })
}

#[cfg(test)]
mod tests;
