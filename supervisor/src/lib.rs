//! The Rekindle supervisor: restores pre-warmed microVM snapshots and hands them out as sandboxes.

pub mod agent;
pub mod config;
pub mod engine;
pub mod host;
pub mod store;
pub mod vm;
