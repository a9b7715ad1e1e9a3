//! Interpreters that were started beforehand and wait, each for one execution of code.
//!
//! ```text
//!   start ──► parked ──claim──► moved into the execution's cgroup ──request──► its process from then on
//!                ▲                                                                     │
//!                └──────────────── refill, in the background ◄──── the execution ends ─┘
//! ```
//!
//! A parked process belongs to root, so no program can reach it, and runs nothing of a caller's before it has
//! been claimed. It becomes the user, enters its directory and takes fresh randomness itself, after the claim
//! and before the program; whatever fails on the way fails the execution. Python copies are forked from
//! processes that have imported what the template's recipe names; Node cannot be forked, so every Node is started.

mod claim;
mod fits;
mod forker;
mod imports;
mod line;
mod node;
mod parked;
mod pool;
mod prepare;
mod refill;
mod request;
mod start;

pub use claim::{Claimed, claim};
pub use pool::Warm;
pub use refill::refill;
pub use start::start;
