//! The Rekindle supervisor: restores pre-warmed microVM snapshots and hands them out as sandboxes.

pub mod agent;
pub mod config;
pub mod door;
pub mod engine;
#[doc(hidden)]
pub mod fuzzing;
pub mod grpc;
pub mod host;
pub mod http;
pub mod mcp;
pub mod network;
pub mod pool;
pub mod service;
pub mod store;
pub mod telemetry;
pub mod tuning;
pub mod vm;
