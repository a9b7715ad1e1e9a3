//! Makes a directory.

use std::time::Duration;

use rekindle_protocol::wire::{MkdirRequest, request::Op, response::Reply};

use super::client::AgentClient;
use super::error::AgentError;
use super::file::FileInfo;
use super::path::GuestPath;

impl AgentClient {
    /// Makes a directory with these permission bits (0 means 0755), with `parents` also the missing ones
    /// above it.
    ///
    /// # Errors
    /// See [`AgentError`].
    pub async fn mkdir(
        &self,
        path: &GuestPath,
        mode: u32,
        parents: bool,
        within: Duration,
    ) -> Result<FileInfo, AgentError> {
        let request = MkdirRequest { path: path.to_wire(), parents, mode };
        match self.call("mkdir", Op::Mkdir(request), within).await? {
            (operation, Reply::File(info)) => {
                FileInfo::of(path, &info).map_err(|what| operation.violated(what))
            }
            (operation, other) => Err(operation.unexpected(&other)),
        }
    }
}
