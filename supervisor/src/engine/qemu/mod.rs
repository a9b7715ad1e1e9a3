//! The portable engine: QEMU's `microvm` machine, emulated in software or on KVM.
//!
//! Works with QEMU 7.2 and later. A snapshot is taken the "template" way: the guest's memory is a shared
//! file from the start, so freezing it writes only some 60 kB of device state, and a clone maps the same
//! file privately. Every file reaches the monitor as an open descriptor: it runs without access to any
//! path, as another user, in QEMU's own system-call sandbox and behind the open guard.
//!
//! | module | what it holds |
//! |---|---|
//! | `find` | the program, its version, and whether KVM is used |
//! | `args` | the command line, a pure function |
//! | `qmp` | the control channel |
//! | `start` | what launching and preparing share |
//! | `launch`, `restore`, `snapshot` | the verbs |
//! | `machine` | a running machine |

mod args;
mod control;
mod engine;
mod find;
mod launch;
mod machine;
pub mod qmp;
mod restore;
mod snapshot;
mod start;
mod version;

#[cfg(test)]
mod tests;

pub use engine::QemuEngine;
pub use find::{FindError, FoundQemu, find};
pub use version::QemuVersion;
