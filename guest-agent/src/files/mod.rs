//! File operations of the supervisor, carried out with the rights of the user they are asked for, which is the sandbox's
//! unless somebody else is named.
//!
//! Every path is resolved by a thread that has that user's rights over files and not the agent's, so a link planted by
//! the sandbox leads nowhere the user could not go. One file per verb; `location` resolves, `worker` runs.

mod archive;
mod copy;
mod download;
mod info;
mod list;
mod location;
mod metadata;
mod mkdir;
mod remove;
mod rename;
mod stat;
mod upload;
mod watch;
mod worker;
mod write;

pub use download::download;
pub use list::list;
pub use metadata::Attributes;
pub use mkdir::mkdir;
pub use remove::remove;
pub use rename::rename;
pub use stat::stat;
pub use upload::upload;
pub use watch::watch;

/// File operations that run at once; more wait their turn.
pub const MAX_PARALLEL: usize = 16;
