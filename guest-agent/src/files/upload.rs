//! Takes one file from the host.
//!
//! The stream's task reads frames and sums them up, a worker thread writes (`write`): two processors share the work. A
//! small queue between them holds back a fast host.

use std::sync::Arc;

use rekindle_protocol::checksum::Checksum;
use rekindle_protocol::frame::{self, FrameError};
use rekindle_protocol::limits::MAX_CHUNK_BYTES;
use rekindle_protocol::metadata;
use rekindle_protocol::mux::Stream;
use rekindle_protocol::wire::response::Reply;
use rekindle_protocol::wire::upload_part::Part;
use rekindle_protocol::wire::{ErrorCode, UploadPart, UploadRequest};
use tokio::sync::mpsc;

use crate::agent::Agent;
use crate::failure::Failure;
use crate::files::worker;
use crate::files::write::{Piece, Written, write};
use crate::session::{reply, response};

/// Pieces that may wait for the disk.
const BACKLOG: usize = 4;

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

async fn receive(
    agent: &Arc<Agent>,
    request: UploadRequest,
    stream: &mut Stream,
) -> Result<Option<Written>, Failure> {
    metadata::check(&request.metadata).map_err(|error| Failure::invalid(error.to_string()))?;
    let ticket = worker::admit(agent, &request.user).await?;
    let most = ticket.sandbox.upload_bytes;
    if request.size > most {
        return Err(too_large(most));
    }
    let (pieces, incoming) = mpsc::channel(BACKLOG);
    let writing = worker::run(ticket, move |account, names| write((account, names), &request, incoming));
    let mut writing = tokio::spawn(writing);
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
