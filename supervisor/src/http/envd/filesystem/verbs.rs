//! One path: what is there, made, moved or removed.

use super::messages::{EntryResponse, MoveRequest, Nothing, PathRequest};
use crate::agent::{FileKind, MkdirOptions};
use crate::http::connect::{Code, ConnectError};
use crate::http::envd::entry::EntryInfo;
use crate::http::envd::rpc::Asked;
use crate::http::envd::trouble::Trouble;
use crate::service::ErrorKind;

pub(super) async fn stat(asked: Asked<'_>, request: PathRequest) -> Result<EntryResponse, Trouble> {
    let path = asked.user()?.path(&request.path)?;
    let info = asked.service.stat(asked.caller, asked.sandbox, &path).await?;
    Ok(EntryResponse { entry: EntryInfo::of(&path.path, &info) })
}

/// As with E2B, a directory that only root may make is the user's all the same, where its caller may be root.
pub(super) async fn make_dir(asked: Asked<'_>, request: PathRequest) -> Result<EntryResponse, Trouble> {
    let path = asked.user()?.path(&request.path)?;
    let options = MkdirOptions { mode: 0, parents: true, must_not_exist: true };
    let mut made = asked.service.make_dir(asked.caller, asked.sandbox, &path, options).await;
    if made.as_ref().is_err_and(|error| error.kind() == ErrorKind::PermissionDenied)
        && let Ok(given) = asked.service.give_dir(asked.caller, asked.sandbox, &path.path).await
    {
        made = Ok(given);
    }
    let error = match made {
        Ok(info) => return Ok(EntryResponse { entry: EntryInfo::of(&path.path, &info) }),
        Err(error) => error,
    };
    Err(match error.kind() {
        ErrorKind::AlreadyExists => {
            let there = asked.service.stat_target(asked.caller, asked.sandbox, &path).await;
            if there.is_ok_and(|there| there.kind != FileKind::Directory) {
                ConnectError::invalid(format!("path already exists but it is not a directory: {path}")).into()
            } else {
                ConnectError::new(Code::AlreadyExists, format!("directory already exists: {path}")).into()
            }
        }
        ErrorKind::WrongFileKind => ConnectError::invalid(format!("path is a file: {path}")).into(),
        _ => error.into(),
    })
}

pub(super) async fn rename(asked: Asked<'_>, request: MoveRequest) -> Result<EntryResponse, Trouble> {
    let user = asked.user()?;
    let (from, to) = (user.path(&request.source)?, user.path(&request.destination)?);
    let info = asked.service.rename(asked.caller, asked.sandbox, &from, &to.path, false).await?;
    Ok(EntryResponse { entry: EntryInfo::of(&to.path, &info) })
}

/// What is not there is removed already.
pub(super) async fn remove(asked: Asked<'_>, request: PathRequest) -> Result<Nothing, Trouble> {
    let path = asked.user()?.path(&request.path)?;
    match asked.service.remove(asked.caller, asked.sandbox, &path, true).await {
        Err(error) if error.kind() != ErrorKind::NotFound => Err(error.into()),
        _ => Ok(Nothing {}),
    }
}
