//! Removes a path.

use std::time::Duration;

use rekindle_protocol::wire::{RemoveRequest, request::Op};

use super::client::AgentClient;
use super::error::AgentError;
use super::path::GuestPath;

impl AgentClient {
    /// Removes a file, a link, an empty directory, or with `recursive` a whole tree.
    ///
    /// # Errors
    /// See [`AgentError`].
    pub async fn remove(
        &self,
        path: &GuestPath,
        recursive: bool,
        within: Duration,
    ) -> Result<(), AgentError> {
        let user = self.wire_user("remove")?;
        let request = RemoveRequest { path: path.to_wire(), recursive, user };
        self.command("remove", Op::Remove(request), within).await
    }
}
