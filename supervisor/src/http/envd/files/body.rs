//! The bodies of files: what a caller sends as bytes to read, and what a guest sends as a stream of pieces.

use std::io;

use async_compression::tokio::bufread::{GzipDecoder, GzipEncoder};
use axum::body::Body;
use axum::http::StatusCode;
use axum::http::header::CONTENT_ENCODING;
use axum::http::request::Parts;
use bytes::{Bytes, BytesMut};
use futures::stream::{once, unfold};
use futures::{Stream, StreamExt as _, TryStreamExt as _};
use std::future::ready;
use tokio::io::{AsyncRead, AsyncReadExt as _, DuplexStream};
use tokio_util::io::{ReaderStream, StreamReader};
use tokio_util::task::AbortOnDropHandle;

use crate::agent::{Downloaded, UserPath};
use crate::door::CallRecord;
use crate::http::connect::ConnectError;
use crate::http::refusal::HttpRefusal;
use crate::service::{Caller, Service, ServiceError};

/// Bytes of a download on their way between the guest and the caller.
const BUFFER: usize = 512 * 1024;
/// Bytes in one piece.
const PIECE: usize = 128 * 1024;

/// The content that a caller sends, unpacked where it is packed. A body that breaks off, and one whose packing does
/// not end where it does, are errors and never an end.
pub(super) fn content(parts: &Parts, body: Body) -> Result<Box<dyn AsyncRead + Unpin + Send>, HttpRefusal> {
    let encoding = parts.headers.get(CONTENT_ENCODING).map(|value| value.to_str().unwrap_or("?"));
    let plain = StreamReader::new(body.into_data_stream().map_err(io::Error::other));
    match encoding {
        None | Some("identity" | "") => Ok(Box::new(plain)),
        Some("gzip") => {
            let mut decoder = GzipDecoder::new(plain);
            decoder.multiple_members(true);
            Ok(Box::new(decoder))
        }
        Some(_) => {
            Err(HttpRefusal::new(StatusCode::UNSUPPORTED_MEDIA_TYPE, "content is sent plain or as gzip"))
        }
    }
}

/// A file on its way out of a guest.
pub(super) struct Download {
    reader: DuplexStream,
    /// Ends with whoever reads it.
    transfer: Option<AbortOnDropHandle<Result<Downloaded, ServiceError>>>,
}

impl Download {
    pub(super) fn begin(service: &Service, caller: Caller, sandbox: String, path: UserPath) -> Self {
        let (writer, reader) = tokio::io::duplex(BUFFER);
        let service = service.clone();
        let transfer =
            tokio::spawn(async move { service.download(&caller, &sandbox, &path, 0, writer).await });
        Self { reader, transfer: Some(AbortOnDropHandle::new(transfer)) }
    }

    /// The next piece; `None` after the last, when all of it has come.
    pub(super) async fn piece(&mut self) -> Result<Option<Bytes>, ServiceError> {
        let mut piece = BytesMut::with_capacity(PIECE);
        // Small reads make small pieces: what is there is put together.
        while piece.len() < PIECE / 2 {
            match self.reader.read_buf(&mut piece).await {
                Ok(0) | Err(_) => break,
                Ok(_) => {}
            }
        }
        if !piece.is_empty() {
            return Ok(Some(piece.freeze()));
        }
        match self.transfer.take() {
            Some(transfer) => transfer.await.unwrap_or(Err(ServiceError::ShuttingDown)).map(|_| None),
            None => Ok(None),
        }
    }

    /// The rest, after its first piece. It ends with an error where the file does not.
    pub(super) fn rest(
        self,
        first: Option<Bytes>,
        record: CallRecord,
    ) -> impl Stream<Item = io::Result<Bytes>> + Send + 'static {
        let over = first.is_none();
        let rest = unfold((self, record, over), |(mut download, mut record, over)| async move {
            if over {
                record.settle(&Ok(()), "ok");
                return None;
            }
            match download.piece().await {
                Ok(Some(piece)) => Some((Ok(piece), (download, record, false))),
                Ok(None) => {
                    record.settle(&Ok(()), "ok");
                    None
                }
                Err(error) => {
                    let word = ConnectError::from(&error).code.word();
                    record.settle::<()>(&Err(error), word);
                    Some((Err(io::Error::other("the file broke off")), (download, record, true)))
                }
            }
        });
        once(ready(first)).filter_map(|first| ready(first.map(Ok))).chain(rest)
    }
}

/// The same, packed.
pub(super) fn packed(
    pieces: impl Stream<Item = io::Result<Bytes>> + Send + 'static,
) -> impl Stream<Item = io::Result<Bytes>> + Send + 'static {
    ReaderStream::with_capacity(GzipEncoder::new(StreamReader::new(Box::pin(pieces))), PIECE)
}
