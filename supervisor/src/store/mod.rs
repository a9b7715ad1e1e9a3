//! Snapshots on disk: built aside, content-addressed, verified, collected.
//!
//! ```text
//! <data>/snapshots/<template>/<digest>/{manifest.json, memory, state, scratch, lock,
//!                                       verified.json, working-set.json}
//! <data>/staging/<random>/              a snapshot being built, or one being removed
//! <data>/locks/build-<template>         held while one is built
//! ```
//!
//! A leaf layer, called by `vm` and by `rekindle template`. A directory below `snapshots` is complete or not
//! there: it is renamed into place when done and renamed away before it is deleted. Whoever uses a snapshot
//! holds a lock that the kernel drops with the process, so a crash never leaves one in use. The store knows
//! nothing of engines beyond the words in a manifest.

mod artifact;
mod collect;
mod compat;
mod digest;
mod error;
mod list;
mod load;
mod lock;
mod manifest;
mod root;
mod stage;
mod verify;
mod working_set;

#[cfg(test)]
mod tests;

pub use artifact::{Artifact, Artifacts};
pub use collect::Collected;
pub use compat::{Difference, DifferenceKind};
pub use error::StoreError;
pub use list::Entry;
pub use load::Snapshot;
pub use lock::FileLock;
pub use manifest::{FileFacts, Inputs, Machine, Manifest, Origin, Traffic};
pub use root::Store;
pub use stage::{Staging, StagingDir};
pub use working_set::WorkingSet;
