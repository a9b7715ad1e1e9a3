//! Pinned packages from PyPI and npm, fetched by the machine's own pip and npm.
//!
//! A recipe names a package, its version and the SHA-256 of the one file that is meant, never an
//! address: where packages come from is the configuration of this machine (`pip.conf`, `.npmrc`,
//! their environment variables), so a mirror or a proxy set up there is used here too. What they
//! bring is checked against the hash and kept under it. `rootfs` is the only caller.

mod npm;
mod pip;
mod store;

pub use npm::fetch as npm;
pub use pip::fetch as wheels;
