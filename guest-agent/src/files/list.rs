//! Lists a directory, and where that is asked for what is below it: sorted, bounded, in several frames where it is long.

use std::os::fd::{AsFd, OwnedFd};
use std::sync::Arc;

use bytes::Bytes;
use nix::dir::Dir;
use nix::fcntl::{OFlag, OpenHow, ResolveFlag, openat2};
use rekindle_protocol::frame;
use rekindle_protocol::limits::{MAX_LIST_BYTES, MAX_LIST_ENTRIES, MAX_PATH_BYTES};
use rekindle_protocol::mux::Stream;
use rekindle_protocol::wire::response::Reply;
use rekindle_protocol::wire::{FileInfo, FileKind, ListRequest, Listing};

use crate::agent::Agent;
use crate::exec::AccountNames;
use crate::failure::Failure;
use crate::files::location::Location;
use crate::files::{info, worker};
use crate::session::{reply, response};

/// Entries of one frame,
const ENTRIES_PER_FRAME: usize = 200;
/// and bytes of what is told of them: with one more entry they stay far below a frame's limit.
const BYTES_PER_FRAME: usize = 512 * 1024;

/// Carries out a list request on its stream.
pub async fn list(agent: &Arc<Agent>, request: ListRequest, mut stream: Stream) {
    let (entries, truncated) = match entries(agent, request).await {
        Ok(found) => found,
        Err(failure) => return reply(stream, failure.into_response()).await,
    };
    let (mut part, mut bytes) = (Vec::new(), 0);
    for entry in entries {
        if part.len() == ENTRIES_PER_FRAME || bytes > BYTES_PER_FRAME {
            let listing = Listing { entries: std::mem::take(&mut part), last: false, truncated };
            bytes = 0;
            if frame::write(&mut stream, &response(Reply::Listing(listing))).await.is_err() {
                return;
            }
        }
        bytes += weight(&entry);
        part.push(entry);
    }
    reply(stream, response(Reply::Listing(Listing { entries: part, last: true, truncated }))).await;
}

async fn entries(agent: &Arc<Agent>, request: ListRequest) -> Result<(Vec<FileInfo>, bool), Failure> {
    let most = match request.max_entries as usize {
        0 => MAX_LIST_ENTRIES,
        wanted => wanted.min(MAX_LIST_ENTRIES),
    };
    let ticket = worker::admit(agent, &request.user).await?;
    worker::run(ticket, move |account, names| {
        let at = Location::parse(&request.path, account)?;
        let root = at.open(OFlag::O_RDONLY | OFlag::O_DIRECTORY)?;
        let mut walk = Walk { names, most, bytes: 0, truncated: false };
        let found = walk.directory(&root, b"").map_err(|error| at.failure(error))?;
        let entries = walk.below(&root, found, request.depth.max(1));
        Ok((entries, walk.truncated))
    })
    .await
}

struct Walk<'a> {
    names: &'a AccountNames,
    /// Entries that may still be found.
    most: usize,
    /// What was found so far weighs this much.
    bytes: usize,
    /// There is more than was found.
    truncated: bool,
}

impl Walk<'_> {
    /// These entries of `root`, each directory followed by what is in it, to so many levels.
    fn below(&mut self, root: &OwnedFd, found: Vec<FileInfo>, depth: u32) -> Vec<FileInfo> {
        let mut entries = Vec::new();
        // What is still to be told, last first, with its level. All of it was counted when it was found.
        let mut waiting: Vec<(FileInfo, u32)> = found.into_iter().rev().map(|info| (info, 1)).collect();
        while let Some((info, level)) = waiting.pop() {
            // Once something was left out, nothing behind it is looked for.
            let descend = info.kind == FileKind::Directory as i32 && level < depth && !self.truncated;
            let path = info.path.clone();
            entries.push(info);
            if !descend {
                continue;
            }
            // Beneath, and by no link: what has become one since is not entered. Gone or closed ones neither.
            let flags = OFlag::O_RDONLY | OFlag::O_DIRECTORY | OFlag::O_CLOEXEC | OFlag::O_NOCTTY;
            let resolve = ResolveFlag::RESOLVE_BENEATH | ResolveFlag::RESOLVE_NO_SYMLINKS;
            let opened = openat2(root, &path[..], OpenHow::new().flags(flags).resolve(resolve));
            let Ok(found) = opened.and_then(|dir| self.directory(&dir, &path)) else { continue };
            waiting.extend(found.into_iter().rev().map(|info| (info, level + 1)));
        }
        entries
    }

    /// What one directory holds, sorted by name and named by the path from the root, which `below` is its own of.
    fn directory(&mut self, dir: &OwnedFd, below: &[u8]) -> nix::Result<Vec<FileInfo>> {
        let mut names = Vec::new();
        let copy = dir.try_clone().map_err(|_| nix::errno::Errno::EMFILE)?;
        for entry in Dir::from_fd(copy)?.iter() {
            let entry = entry?;
            let name = entry.file_name();
            if name.to_bytes() == b"." || name.to_bytes() == b".." {
                continue;
            }
            // Bounded before it is sorted: a directory can hold more names than the agent has memory.
            if names.len() == self.most {
                self.truncated = true;
                break;
            }
            names.push(name.to_owned());
        }
        names.sort_unstable();
        let mut found = Vec::with_capacity(names.len());
        for name in names {
            let path = match below {
                b"" => name.to_bytes().to_vec(),
                below => [below, b"/", name.to_bytes()].concat(),
            };
            if path.len() > MAX_PATH_BYTES {
                self.truncated = true;
                continue;
            }
            // What has vanished meanwhile is not listed.
            let Ok(info) = info::of_entry(Bytes::from(path), dir.as_fd(), &name, self.names) else {
                continue;
            };
            self.bytes += weight(&info);
            if self.bytes > MAX_LIST_BYTES {
                self.truncated = true;
                break;
            }
            self.most -= 1;
            found.push(info);
        }
        Ok(found)
    }
}

/// Bytes of what is told of an entry, numbers left out.
fn weight(info: &FileInfo) -> usize {
    let metadata: usize = info.metadata.iter().map(|pair| pair.name.len() + pair.value.len()).sum();
    info.path.len() + info.link_target.len() + info.owner.len() + info.group.len() + metadata
}
