//! Lists a directory: sorted, bounded, in several frames where it is long.

use std::os::fd::AsFd;
use std::sync::Arc;

use bytes::Bytes;
use nix::dir::Dir;
use nix::fcntl::OFlag;
use rekindle_protocol::frame;
use rekindle_protocol::limits::MAX_LIST_ENTRIES;
use rekindle_protocol::mux::Stream;
use rekindle_protocol::wire::response::Reply;
use rekindle_protocol::wire::{FileInfo, ListRequest, Listing};

use crate::agent::Agent;
use crate::failure::Failure;
use crate::files::location::Location;
use crate::files::{info, worker};
use crate::session::{reply, response};

/// Entries of one frame: with the longest names and link targets they stay far below a frame's limit.
const ENTRIES_PER_FRAME: usize = 200;

/// Carries out a list request on its stream.
pub async fn list(agent: &Arc<Agent>, request: ListRequest, mut stream: Stream) {
    let (entries, truncated) = match entries(agent, request).await {
        Ok(found) => found,
        Err(failure) => return reply(stream, failure.into_response()).await,
    };
    let mut parts = entries.chunks(ENTRIES_PER_FRAME).peekable();
    while let Some(part) = parts.next() {
        if parts.peek().is_none() {
            break;
        }
        let listing = Listing { entries: part.to_vec(), last: false, truncated };
        if frame::write(&mut stream, &response(Reply::Listing(listing))).await.is_err() {
            return;
        }
    }
    let rest = entries.chunks(ENTRIES_PER_FRAME).next_back().unwrap_or_default().to_vec();
    reply(stream, response(Reply::Listing(Listing { entries: rest, last: true, truncated }))).await;
}

async fn entries(agent: &Arc<Agent>, request: ListRequest) -> Result<(Vec<FileInfo>, bool), Failure> {
    let most = match request.max_entries as usize {
        0 => MAX_LIST_ENTRIES,
        wanted => wanted.min(MAX_LIST_ENTRIES),
    };
    let ticket = worker::admit(agent).await?;
    worker::run(ticket, move |account| {
        let at = Location::parse(&request.path, account)?;
        let mut dir =
            Dir::from_fd(at.open(OFlag::O_RDONLY | OFlag::O_DIRECTORY)?).map_err(|e| at.failure(e))?;
        let mut names = Vec::new();
        let mut truncated = false;
        for entry in dir.iter() {
            let entry = entry.map_err(|error| at.failure(error))?;
            let name = entry.file_name();
            if name.to_bytes() == b"." || name.to_bytes() == b".." {
                continue;
            }
            // Bounded before it is sorted: a directory can hold more names than the agent has memory.
            if names.len() == most {
                truncated = true;
                break;
            }
            names.push(name.to_owned());
        }
        names.sort_unstable();
        let mut entries = Vec::with_capacity(names.len());
        for name in names {
            // What has vanished meanwhile is not listed.
            if let Ok(info) =
                info::of_entry(Bytes::copy_from_slice(name.to_bytes()), dir.as_fd(), name.as_c_str())
            {
                entries.push(info);
            }
        }
        Ok((entries, truncated))
    })
    .await
}
