//! Gives a file or a directory of a guest another name.

use std::time::Duration;

use rekindle_protocol::wire::{RenameRequest, request::Op, response::Reply};

use super::client::AgentClient;
use super::error::AgentError;
use super::file::FileInfo;
use super::path::GuestPath;

impl AgentClient {
    /// Moves what is at `from` to `to`, making missing parents, and describes it there. A file at `to` is replaced, a
    /// directory only by a directory and only when it is empty; with `must_not_exist` nothing is. Giving it up stops
    /// a move that has to copy to another file system.
    ///
    /// # Errors
    /// See [`AgentError`]. Agents before protocol 3.5 refuse it as unknown.
    pub async fn rename(
        &self,
        from: &GuestPath,
        to: &GuestPath,
        must_not_exist: bool,
        within: Duration,
    ) -> Result<FileInfo, AgentError> {
        let user = self.wire_user("rename")?;
        let request = RenameRequest { from: from.to_wire(), to: to.to_wire(), must_not_exist, user };
        match self.call("rename", Op::Rename(request), within).await? {
            (operation, Reply::File(info)) => {
                FileInfo::of(to, &info).map_err(|what| operation.violated(what))
            }
            (operation, other) => Err(operation.unexpected(&other)),
        }
    }
}
