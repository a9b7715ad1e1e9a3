//! Lists a directory.

use std::time::Duration;

use rekindle_protocol::limits::MAX_LIST_ENTRIES;
use rekindle_protocol::wire::{ListRequest, request::Op, response::Reply};
use serde::Serialize;

use super::client::{AgentClient, Lane};
use super::error::AgentError;
use super::file::FileInfo;
use super::path::GuestPath;
use super::patience::deadline;

/// Bytes of all names and targets of links in one listing: enough for 10,000 names of the greatest length.
const MAX_LISTING_BYTES: usize = 4 << 20;

/// What a directory holds.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Listing {
    /// Its entries; each path is a name.
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
        let limit = match max_entries as usize {
            0 => MAX_LIST_ENTRIES,
            asked => asked.min(MAX_LIST_ENTRIES),
        };
        let deadline = deadline(within);
        let request = ListRequest { path: path.to_wire(), max_entries: limit as u32 };
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
                bytes += info.path.len() + info.link_target.len();
                if bytes > MAX_LISTING_BYTES {
                    return Err(AgentError::TooLarge { operation: "list", limit: MAX_LISTING_BYTES as u64 });
                }
                entries.push(FileInfo::entry(info).map_err(|what| operation.violated(what))?);
            }
            if part.last {
                return Ok(Listing { entries, truncated: part.truncated });
            }
        }
    }
}
