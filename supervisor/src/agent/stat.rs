//! Describes one path.

use std::time::Duration;

use rekindle_protocol::wire::{StatRequest, request::Op, response::Reply};

use super::client::AgentClient;
use super::error::AgentError;
use super::file::FileInfo;
use super::path::GuestPath;

impl AgentClient {
    /// Describes a path, or with `follow` what a symbolic link there points to.
    ///
    /// # Errors
    /// See [`AgentError`].
    pub async fn stat(
        &self,
        path: &GuestPath,
        follow: bool,
        within: Duration,
    ) -> Result<FileInfo, AgentError> {
        let request = StatRequest { path: path.to_wire(), follow, user: self.wire_user("stat")? };
        match self.call("stat", Op::Stat(request), within).await? {
            (operation, Reply::File(info)) => {
                FileInfo::of(path, &info).map_err(|what| operation.violated(what))
            }
            (operation, other) => Err(operation.unexpected(&other)),
        }
    }
}
