//! Describes one path.

use std::sync::Arc;

use nix::fcntl::OFlag;
use rekindle_protocol::wire::{FileInfo, StatRequest};

use crate::agent::Agent;
use crate::failure::Failure;
use crate::files::location::Location;
use crate::files::{info, worker};

/// Carries out a stat request.
///
/// # Errors
/// What the system says.
pub async fn stat(agent: &Arc<Agent>, request: StatRequest) -> Result<FileInfo, Failure> {
    let ticket = worker::admit(agent, &request.user).await?;
    worker::run(ticket, move |account, names| {
        let at = Location::parse(&request.path, account)?;
        // A path that ends in no name, such as `/`, is no link.
        if request.follow || at.parent().is_err() {
            let file = at.open(OFlag::O_PATH)?;
            return info::of_open(request.path, file, names).map_err(|error| at.failure(error));
        }
        let (dir, name) = at.parent()?;
        info::of_entry(request.path, dir, &name, names).map_err(|error| at.failure(error))
    })
    .await
}
