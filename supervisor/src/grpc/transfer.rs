//! Files on the wire: an upload's messages as a stream of bytes, and a stream of bytes as a download's messages.

use std::io;

use bytes::{Bytes, BytesMut};
use futures::Stream;
use futures::stream::{try_unfold, unfold};
use rekindle_api::v1::{self, download_file_response::Part, upload_file_request::Part as UploadPart};
use tokio::io::{AsyncRead, AsyncReadExt as _, DuplexStream};
use tokio_util::io::StreamReader;
use tokio_util::task::AbortOnDropHandle;
use tonic::{Status, Streaming};

use super::call_record::CallRecord;
use super::{deadline, messages, status};
use crate::agent::{Downloaded, UserPath};
use crate::service::{Caller, Service, ServiceError};

/// Bytes of a download on their way between the guest and the caller.
const BUFFER: usize = 512 * 1024;
/// Bytes in one message.
const PIECE: usize = 128 * 1024;

/// The content of an upload, of `size` bytes where that was announced. It ends where the caller says so; a stream
/// that ends before, a message that is no content and content of another size are errors, so that no half of a file
/// is ever taken for a whole.
pub(super) fn content(
    parts: Streaming<v1::UploadFileRequest>,
    size: Option<u64>,
) -> impl AsyncRead + Unpin + Send {
    let pieces = Pieces { parts, size, received: 0 };
    StreamReader::new(Box::pin(try_unfold(pieces, |mut pieces| async move {
        Ok::<_, io::Error>(pieces.next().await?.map(|piece| (piece, pieces)))
    })))
}

struct Pieces {
    parts: Streaming<v1::UploadFileRequest>,
    size: Option<u64>,
    received: u64,
}

impl Pieces {
    async fn next(&mut self) -> io::Result<Option<Bytes>> {
        let Some(message) = self.parts.message().await.map_err(io::Error::other)? else {
            // A caller that was cut off looks the same here as one that has sent everything.
            return Err(io::Error::other("the stream ended before `end` said that it was all"));
        };
        let chunk = match message.part {
            Some(UploadPart::Chunk(chunk)) => chunk,
            Some(UploadPart::End(_)) => {
                return self.check(|announced| self.received == announced).map(|()| None);
            }
            Some(UploadPart::Start(_)) => return Err(io::Error::other("a file is named once")),
            None => return Err(io::Error::other("a message without content")),
        };
        self.received = self.received.saturating_add(chunk.len() as u64);
        self.check(|announced| self.received <= announced)?;
        Ok(Some(chunk))
    }

    fn check(&self, fits: impl FnOnce(u64) -> bool) -> io::Result<()> {
        match self.size {
            Some(announced) if !fits(announced) => {
                let received = self.received;
                Err(io::Error::other(format!("{received} bytes came where {announced} were announced")))
            }
            _ => Ok(()),
        }
    }
}

struct Outbox {
    reader: DuplexStream,
    /// Ends with whoever reads it.
    transfer: Option<AbortOnDropHandle<Result<Downloaded, ServiceError>>>,
    record: CallRecord,
    over: bool,
}

/// The messages of a download.
pub(super) fn download(
    service: &Service,
    caller: Caller,
    sandbox: String,
    path: UserPath,
    max_bytes: u64,
    record: CallRecord,
) -> impl Stream<Item = Result<v1::DownloadFileResponse, Status>> + Send + 'static {
    let (writer, reader) = tokio::io::duplex(BUFFER);
    let (service, began, within) = (service.clone(), record.began(), record.within());
    let transfer = tokio::spawn(async move {
        let reading = service.download(&caller, &sandbox, &path, max_bytes, writer);
        deadline::keep(began, within, reading).await
    });
    let outbox = Outbox { reader, transfer: Some(AbortOnDropHandle::new(transfer)), record, over: false };
    unfold(outbox, |mut outbox| async move {
        let message = outbox.next().await?;
        Some((message, outbox))
    })
}

impl Outbox {
    async fn next(&mut self) -> Option<Result<v1::DownloadFileResponse, Status>> {
        if self.over {
            return None;
        }
        let mut piece = BytesMut::with_capacity(PIECE);
        // Small reads make small messages: what is there is put together up to a piece.
        while piece.len() < PIECE {
            match self.reader.read_buf(&mut piece).await {
                Ok(0) | Err(_) => break,
                Ok(_) if piece.len() < PIECE / 2 => {}
                Ok(_) => break,
            }
        }
        if !piece.is_empty() {
            return Some(Ok(part(Part::Chunk(piece.freeze()))));
        }
        self.over = true;
        let done = self.transfer.take()?.await.unwrap_or(Err(ServiceError::ShuttingDown));
        self.record.settle(&done);
        Some(match done {
            Ok(Downloaded { info, size, sha256 }) => Ok(part(Part::End(v1::DownloadFileEnd {
                file: Some(messages::file(&info)),
                size,
                sha256: Bytes::copy_from_slice(&sha256.0),
            }))),
            Err(error) => Err(status::status(&error)),
        })
    }
}

fn part(part: Part) -> v1::DownloadFileResponse {
    v1::DownloadFileResponse { part: Some(part) }
}
