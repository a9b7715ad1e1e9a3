//! The bodies of the requests this engine sends.
//!
//! They are `firecracker-rs-sdk`'s where those are right. Firecracker refuses unknown fields, and what is not
//! set is left out, so the others are here: the crate misspells `bandwidth` in a rate limiter, and with it in
//! everything that holds one, and sends `null` for what is not set in some. A test holds every name that is
//! sent against a table of the published interface of the tested version; decision 0030 has the details.

pub use firecracker_rs_sdk::models::{
    ActionType, BackendType, CacheType, InstanceActionInfo, MachineConfiguration, MemoryBackend,
    SnapshotCreateParams, SnapshotLoadParams, SnapshotType, Vm, VmState, Vsock,
};
use serde::Serialize;

/// `PUT /boot-source`.
#[derive(Debug, Serialize)]
pub struct BootSource<'a> {
    /// The kernel, as the jailed monitor sees it.
    pub kernel_image_path: &'a str,
    /// The kernel's command line.
    pub boot_args: &'a str,
}

/// `PUT /drives/{drive_id}`.
#[derive(Debug, Serialize)]
pub struct Drive<'a> {
    /// Its name, the same as in the path.
    pub drive_id: &'a str,
    /// The file, as the jailed monitor sees it. The snapshot remembers it.
    pub path_on_host: &'a str,
    /// Whether Firecracker adds it to the kernel's command line.
    pub is_root_device: bool,
    /// Whether the guest can write to it.
    pub is_read_only: bool,
    /// Whether the guest's flushes reach the disk. The crate's name of the other kind is misspelt.
    pub cache_type: CacheType,
    /// Bounds on its traffic.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub rate_limiter: Option<RateLimiter>,
}

/// `PATCH /drives/{drive_id}`.
#[derive(Debug, Serialize)]
pub struct PartialDrive<'a> {
    /// Its name, the same as in the path.
    pub drive_id: &'a str,
    /// New bounds on its traffic.
    pub rate_limiter: RateLimiter,
}

/// Bounds on the traffic of a device.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
pub struct RateLimiter {
    /// In bytes.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub bandwidth: Option<TokenBucket>,
    /// In operations.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub ops: Option<TokenBucket>,
}

/// How much there is, and how soon there is as much again.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
pub struct TokenBucket {
    /// Bytes or operations.
    pub size: u64,
    /// Milliseconds.
    pub refill_time: u64,
}

/// `PUT /entropy`.
#[derive(Debug, Serialize)]
pub struct EntropyDevice {}
