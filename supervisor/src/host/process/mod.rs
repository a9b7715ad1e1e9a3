//! Child processes that cannot outlive their purpose.
//!
//! [`spawn`] starts a program inside its control group, as an unprivileged user and tied to the
//! supervisor's life; [`Process`] watches it through a pidfd; [`ProcessIdentity`] names it across
//! restarts of the supervisor, safe against pid reuse. Called by engines and by recovery. Nothing
//! here polls, and nothing installs a `SIGCHLD` handler.

mod child;
mod clone;
mod exit;
mod identity;
mod namespace;
mod namespace_set;
mod spawn;
mod spec;
mod tail;

#[cfg(test)]
mod tests;

pub use child::{Process, StopStep};
pub use exit::ExitReport;
pub use identity::ProcessIdentity;
pub(crate) use identity::wait_exit;
pub use spawn::{SpawnError, spawn};
pub use spec::{Bind, Namespaces, ProcessSpec, RunAs};
pub use tail::{Progress, Tail};
