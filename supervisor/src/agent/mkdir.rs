//! Makes a directory.

use std::time::Duration;

use rekindle_protocol::wire::{MkdirRequest, request::Op, response::Reply};

use super::client::AgentClient;
use super::error::AgentError;
use super::file::FileInfo;
use super::path::GuestPath;

/// The minor protocol version from which on an agent heeds `must_not_exist`.
const MUST_NOT_EXIST_SINCE: u32 = 5;

/// How a directory is made.
#[derive(Debug, Clone, Copy, Default)]
pub struct MkdirOptions {
    /// Permission bits; 0 means 0755. See [`permissions`](super::permissions).
    pub mode: u32,
    /// Make missing parents, and accept a directory that exists.
    pub parents: bool,
    /// Refuse when the path exists, whatever `parents` says.
    pub must_not_exist: bool,
}

impl AgentClient {
    /// Makes a directory and describes it.
    ///
    /// # Errors
    /// See [`AgentError`]. Agents before protocol 3.5 do not know `must_not_exist` beside `parents`, and are not
    /// asked.
    pub async fn mkdir(
        &self,
        path: &GuestPath,
        options: MkdirOptions,
        within: Duration,
    ) -> Result<FileInfo, AgentError> {
        const MKDIR: &str = "mkdir";
        let MkdirOptions { mode, parents, must_not_exist } = options;
        if parents && must_not_exist {
            self.heeds(MKDIR, "must_not_exist", MUST_NOT_EXIST_SINCE)?;
        }
        let user = self.wire_user(MKDIR)?;
        let request = MkdirRequest { path: path.to_wire(), parents, mode, must_not_exist, user };
        match self.call(MKDIR, Op::Mkdir(request), within).await? {
            (operation, Reply::File(info)) => {
                FileInfo::of(path, &info).map_err(|what| operation.violated(what))
            }
            (operation, other) => Err(operation.unexpected(&other)),
        }
    }
}
