//! The bodies of the requests this engine sends. Field names are Firecracker's.
//!
//! Firecracker refuses unknown fields, so what is not set is left out. A test holds every name here
//! against a table of the published interface of the tested version.

use serde::Serialize;

/// `PUT /machine-config`.
#[derive(Debug, Serialize)]
pub struct MachineConfiguration {
    /// Virtual processors.
    pub vcpu_count: u32,
    /// Memory in mebibytes.
    pub mem_size_mib: u32,
}

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
    /// `Unsafe` or `Writeback`.
    pub cache_type: &'a str,
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

/// `PUT /vsock`.
#[derive(Debug, Serialize)]
pub struct Vsock<'a> {
    /// The guest's address.
    pub guest_cid: u32,
    /// The unix socket, as the jailed monitor sees it. The snapshot remembers it.
    pub uds_path: &'a str,
}

/// `PUT /entropy`.
#[derive(Debug, Serialize)]
pub struct EntropyDevice {}

/// `PUT /actions`.
#[derive(Debug, Serialize)]
pub struct InstanceActionInfo<'a> {
    /// `InstanceStart` and others.
    pub action_type: &'a str,
}

/// `PATCH /vm`.
#[derive(Debug, Serialize)]
pub struct Vm<'a> {
    /// `Paused` or `Resumed`.
    pub state: &'a str,
}

/// `PUT /snapshot/create`.
#[derive(Debug, Serialize)]
pub struct SnapshotCreateParams<'a> {
    /// `Full` or `Diff`.
    pub snapshot_type: &'a str,
    /// Where the state goes.
    pub snapshot_path: &'a str,
    /// Where the memory goes.
    pub mem_file_path: &'a str,
}

/// `PUT /snapshot/load`.
#[derive(Debug, Serialize)]
pub struct SnapshotLoadParams<'a> {
    /// Where the state is.
    pub snapshot_path: &'a str,
    /// Where the memory is.
    pub mem_backend: MemoryBackend<'a>,
    /// Whether the guest runs at once.
    pub resume_vm: bool,
}

/// How the guest's memory is provided.
#[derive(Debug, Serialize)]
pub struct MemoryBackend<'a> {
    /// `File` or `Uffd`.
    pub backend_type: &'a str,
    /// The file or socket.
    pub backend_path: &'a str,
}
