//! Lists a directory, to a depth: each directory is followed by what is in it.

use super::messages::{ListDirRequest, ListDirResponse};
use crate::agent::GuestPath;
use crate::http::connect::ConnectError;
use crate::http::envd::entry::EntryInfo;
use crate::http::envd::rpc::Asked;
use crate::http::envd::trouble::Trouble;
use crate::service::ErrorKind;

pub(super) async fn list(asked: Asked<'_>, request: ListDirRequest) -> Result<ListDirResponse, Trouble> {
    let root = asked.user()?.path(&request.path)?;
    let listing = match asked.service.list_files(asked.caller, asked.sandbox, &root, request.depth, 0).await {
        Ok(listing) => listing,
        Err(error) if error.kind() == ErrorKind::WrongFileKind => {
            return Err(ConnectError::invalid(format!("path is not a directory: {root}")).into());
        }
        Err(error) => return Err(error.into()),
    };
    if listing.truncated {
        let most = listing.entries.len();
        let message =
            format!("there are more than the {most} entries of one answer: list fewer levels, or a part");
        return Err(ConnectError::invalid(message).into());
    }
    let told = |info| Ok(EntryInfo::of(&below(&root.path, info)?, info));
    let entries = listing.entries.iter().map(told).collect::<Result<_, ConnectError>>()?;
    Ok(ListDirResponse { entries })
}

fn below(root: &GuestPath, info: &crate::agent::FileInfo) -> Result<GuestPath, ConnectError> {
    let root = root.as_bytes().strip_suffix(b"/").unwrap_or(root.as_bytes());
    let path = [root, b"/", info.path.as_bytes()].concat();
    GuestPath::new(path).map_err(|error| ConnectError::invalid(error.to_string()))
}
