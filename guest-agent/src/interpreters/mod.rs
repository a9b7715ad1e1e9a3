//! Interpreters that were started beforehand and wait, each for one execution of code.
//!
//! ```text
//!   fill ──► standby ──claim──► moved into the execution's cgroup ──request──► its process from then on
//!                ▲                                                                     │
//!                └──────────────── refill, in the background ◄──── the execution ends ─┘
//! ```
//!
//! A standby process belongs to root, so no program can reach it, and runs nothing of a caller's before it has
//! been claimed. It becomes the user, enters its directory and takes fresh randomness itself, after the claim
//! and before the program; whatever fails on the way fails the execution. Python copies are forked from
//! processes that have imported what the template's recipe names; Node cannot be forked, so every Node is started.
//! What runs in them is in `rootfs/interpreters/`.

mod claim;
mod fill;
mod forker;
pub mod health;
mod pool;
mod request;
mod source_scan;
mod standby;

pub use claim::{Claimed, claim};
pub use fill::{prepare, refill, start};
pub use pool::Interpreters;
pub use standby::Standby;
