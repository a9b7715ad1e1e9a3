//! Makes a directory.

use std::sync::Arc;

use nix::errno::Errno;
use nix::fcntl::OFlag;
use nix::sys::stat::{FchmodatFlags, Mode, fchmodat, mkdirat};
use rekindle_protocol::wire::{FileInfo, MkdirRequest};

use crate::agent::Agent;
use crate::failure::Failure;
use crate::files::location::Location;
use crate::files::{info, worker};

/// Carries out a mkdir request.
///
/// # Errors
/// What the system says.
pub async fn mkdir(agent: &Arc<Agent>, request: MkdirRequest) -> Result<FileInfo, Failure> {
    let ticket = worker::admit(agent, &request.user).await?;
    worker::run(ticket, move |account, names| {
        let at = Location::parse(&request.path, account)?;
        let mode = Mode::from_bits_truncate(if request.mode == 0 { 0o755 } else { request.mode });
        let (dir, name) = if request.parents { at.make_parent()? } else { at.parent()? };
        match mkdirat(&dir, name.as_c_str(), mode) {
            // Not what the agent's umask leaves of the mode.
            Ok(()) => fchmodat(&dir, name.as_c_str(), mode, FchmodatFlags::FollowSymlink)
                .map_err(|error| at.failure(error))?,
            Err(Errno::EEXIST) if request.parents && !request.must_not_exist => {}
            Err(error) => return Err(at.failure(error)),
        }
        let made = at.open(OFlag::O_PATH | OFlag::O_DIRECTORY)?;
        info::of_open(request.path, made, names).map_err(|error| at.failure(error))
    })
    .await
}
