//! The production engine: Firecracker on KVM, under its jailer unless a developer asks for none.
//!
//! Every monitor has a root directory of its own in the machine's work directory, its own user, its own
//! process, mount and network namespaces, Firecracker's system-call filters, and resource limits. The
//! files it needs are bound into that root for it alone; the snapshot's memory is one inode that all
//! clones map privately.
//!
//! | module | what it holds |
//! |---|---|
//! | `find`, `version` | the programs, and which versions are accepted |
//! | `jail` | the root directory and the jailer's command line |
//! | `api` | the control channel: HTTP over a unix socket |
//! | `vsock` | the channel to the agent |
//! | `metrics` | what the monitor counts |
//! | `start` | what launching and preparing share |
//! | `launch`, `restore`, `snapshot` | the verbs |
//! | `machine` | a running machine |

pub mod api;
mod control;
mod engine;
mod find;
mod jail;
mod launch;
mod machine;
pub(crate) mod metrics;
mod restore;
mod snapshot;
mod socket;
mod start;
mod version;
mod vsock;

#[cfg(test)]
mod tests;

pub use engine::{Confinement, FirecrackerEngine};
pub use find::{FindError, FoundFirecracker, find};
pub use version::{FirecrackerVersion, Verdict};
