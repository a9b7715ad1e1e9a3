//! Removes a file or a directory. A link is removed, never followed.

use std::sync::Arc;

use nix::errno::Errno;
use nix::unistd::{UnlinkatFlags, unlinkat};
use rekindle_protocol::wire::RemoveRequest;

use crate::agent::Agent;
use crate::failure::Failure;
use crate::files::location::Location;
use crate::files::worker;

/// Carries out a remove request.
///
/// # Errors
/// What the system says.
pub async fn remove(agent: &Arc<Agent>, request: RemoveRequest) -> Result<(), Failure> {
    let ticket = worker::admit(agent).await?;
    worker::run(ticket, move |account| {
        let at = Location::parse(&request.path, account)?;
        let (dir, name) = at.parent()?;
        match unlinkat(&dir, name.as_c_str(), UnlinkatFlags::NoRemoveDir) {
            Ok(()) => return Ok(()),
            Err(Errno::EISDIR) => {}
            Err(error) => return Err(at.failure(error)),
        }
        let removed = if request.recursive {
            // The standard library removes a tree without following links that appear meanwhile.
            std::fs::remove_dir_all(at.path())
        } else {
            unlinkat(&dir, name.as_c_str(), UnlinkatFlags::RemoveDir).map_err(Into::into)
        };
        removed.map_err(|error| at.failure(error))
    })
    .await
}
