//! Lists a directory, and what is below it.

use std::time::Duration;

use rekindle_protocol::limits::{MAX_LIST_BYTES, MAX_LIST_ENTRIES};
use rekindle_protocol::wire::{self, ListRequest, request::Op, response::Reply};
use serde::Serialize;

use super::client::{AgentClient, FILES_SINCE, Lane};
use super::error::AgentError;
use super::file::FileInfo;
use super::path::GuestPath;
use super::patience::deadline;

/// What a directory holds.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Listing {
    /// Its entries; each path is a name, of what is in directories below the path from the one that is listed.
    pub entries: Vec<FileInfo>,
    /// There are more of them.
    pub truncated: bool,
}

impl AgentClient {
    /// Lists up to `max_entries` of a directory; 0 means [`MAX_LIST_ENTRIES`], which is also the most.
    ///
    /// # Errors
    /// See [`AgentError`].
    pub async fn list(
        &self,
        path: &GuestPath,
        max_entries: u32,
        within: Duration,
    ) -> Result<Listing, AgentError> {
        self.list_tree(path, 1, max_entries, within).await
    }

    /// Lists up to `max_entries` of what is in a directory and below it, so many levels: each directory is followed by
    /// what is in it.
    ///
    /// # Errors
    /// See [`AgentError`]. Agents before protocol 3.7 know one level, and are not asked for more.
    pub async fn list_tree(
        &self,
        path: &GuestPath,
        depth: u32,
        max_entries: u32,
        within: Duration,
    ) -> Result<Listing, AgentError> {
        let depth = depth.max(1);
        if depth > 1 {
            self.heeds("list", "depths", FILES_SINCE)?;
        }
        let limit = match max_entries as usize {
            0 => MAX_LIST_ENTRIES,
            asked => asked.min(MAX_LIST_ENTRIES),
        };
        let deadline = deadline(within);
        let user = self.wire_user("list")?;
        let request = ListRequest { path: path.to_wire(), max_entries: limit as u32, depth, user };
        let mut operation = self.begin("list", Lane::Call, Op::List(request), deadline).await?;
        let (mut entries, mut bytes) = (Vec::new(), 0_usize);
        loop {
            let part = match operation.receive(Some(deadline)).await? {
                Reply::Listing(part) => part,
                other => return Err(operation.unexpected(&other)),
            };
            if part.entries.is_empty() && !part.last {
                return Err(operation.violated("an empty part of a listing"));
            }
            if entries.len() + part.entries.len() > limit {
                return Err(operation.violated("more entries than were asked for"));
            }
            for info in &part.entries {
                bytes += weight(info);
                if bytes > MAX_LIST_BYTES {
                    return Err(AgentError::TooLarge { operation: "list", limit: MAX_LIST_BYTES as u64 });
                }
                entries.push(FileInfo::entry(info, depth).map_err(|what| operation.violated(what))?);
            }
            if part.last {
                return Ok(Listing { entries, truncated: part.truncated });
            }
        }
    }
}

/// Bytes of what is told of an entry, numbers left out.
fn weight(info: &wire::FileInfo) -> usize {
    let metadata: usize = info.metadata.iter().map(|pair| pair.name.len() + pair.value.len()).sum();
    info.path.len() + info.link_target.len() + info.owner.len() + info.group.len() + metadata
}
