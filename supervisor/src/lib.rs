//! The Rekindle supervisor: restores pre-warmed microVM snapshots and hands them out as sandboxes.

pub mod agent;
pub mod host;
