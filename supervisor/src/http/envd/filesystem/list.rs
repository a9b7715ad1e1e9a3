//! Lists a directory, to a depth: each directory is followed by what is in it.

use super::entry;
use super::messages::{ListDirRequest, ListDirResponse};
use crate::agent::{FileKind, GuestPath};
use crate::http::connect::ConnectError;
use crate::http::envd::rpc::Asked;
use crate::http::envd::trouble::Trouble;
use crate::service::ErrorKind;

/// Entries of one answer.
const MAX_ENTRIES: usize = 100_000;

pub(super) async fn list(asked: Asked<'_>, request: ListDirRequest) -> Result<ListDirResponse, Trouble> {
    let root = asked.user()?.path(&request.path)?;
    let depth = request.depth.max(1);
    let mut entries = Vec::new();
    // What is still to be told, last first: an entry, or what is in a directory.
    let mut waiting = vec![(root.clone(), None, 0)];
    while let Some((path, info, level)) = waiting.pop() {
        let descend = match &info {
            None => true,
            Some(info) => {
                entries.push(entry(&asked, &path, info).await);
                info.kind == FileKind::Directory && level < depth
            }
        };
        if !descend {
            continue;
        }
        let listed = asked.service.list_files(asked.caller, asked.sandbox, &path, 0).await;
        let listing = match listed {
            Ok(listing) => listing,
            // Gone or closed since its own directory was read.
            Err(error) if level > 0 && skippable(error.kind()) => continue,
            Err(error) if error.kind() == ErrorKind::WrongFileKind => {
                return Err(ConnectError::invalid(format!("path is not a directory: {root}")).into());
            }
            Err(error) => return Err(error.into()),
        };
        if listing.truncated || entries.len() + waiting.len() + listing.entries.len() > MAX_ENTRIES {
            let message = format!("more than {MAX_ENTRIES} entries: list fewer levels, or a part");
            return Err(ConnectError::invalid(message).into());
        }
        for info in listing.entries.into_iter().rev() {
            let below = below(&path, &info.path)?;
            waiting.push((below, Some(info), level + 1));
        }
    }
    Ok(ListDirResponse { entries })
}

fn skippable(kind: ErrorKind) -> bool {
    matches!(kind, ErrorKind::NotFound | ErrorKind::PermissionDenied | ErrorKind::WrongFileKind)
}

fn below(directory: &GuestPath, name: &GuestPath) -> Result<GuestPath, ConnectError> {
    let directory = directory.as_bytes().strip_suffix(b"/").unwrap_or(directory.as_bytes());
    let path = [directory, b"/", name.as_bytes()].concat();
    GuestPath::new(path).map_err(|error| ConnectError::invalid(error.to_string()))
}
