//! What the end-to-end tests and measurements share: one snapshot a process, clones of it, the real
//! `rekindle` program, its service, web servers for its guests, and a way to prove that nothing was left behind.
//!
//! Used by `tests/sandbox`, `tests/service` and `benches/restore`. Everything it makes lives below one temporary directory,
//! which is removed when the process ends, however it ends.

#![forbid(unsafe_code)]

pub mod authority;
pub mod browser;
pub mod cli;
pub mod foreign;
pub mod forge;
pub mod front;
pub mod guest;
mod lab;
pub mod leftovers;
pub mod memory;
pub mod node;
pub mod packages;
pub mod provisions;
pub mod python;
pub mod server;
pub mod site;
mod sweeper;

pub use lab::{Lab, Unavailable, engine};
