//! Which engine this is, and what its snapshots depend on.

use std::fmt;

use serde::{Deserialize, Serialize};

use crate::host::cpu::CpuIdentity;
use crate::store::Origin;

/// The engines there are.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum EngineKind {
    /// Firecracker on KVM.
    Firecracker,
    /// QEMU, emulated or on KVM.
    Qemu,
    /// No virtual machine at all, for tests.
    Fake,
}

impl fmt::Display for EngineKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Firecracker => "firecracker",
            Self::Qemu => "qemu",
            Self::Fake => "fake",
        })
    }
}

/// Everything about an engine on a host that a snapshot depends on. A snapshot is restored only where
/// all of it is the same.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct EngineIdentity {
    /// The engine.
    pub engine: EngineKind,
    /// The monitor's full version.
    pub version: String,
    /// `kvm`, `tcg` or the like: how guest code is run.
    pub accelerator: String,
    /// The host's processor.
    pub cpu: CpuIdentity,
}

impl From<&EngineIdentity> for Origin {
    fn from(identity: &EngineIdentity) -> Self {
        Self {
            engine: identity.engine.to_string(),
            version: identity.version.clone(),
            accelerator: identity.accelerator.clone(),
            cpu: identity.cpu.clone(),
        }
    }
}

/// What an engine can do on this host.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Capabilities {
    /// Guest code runs on the processor and is not emulated.
    pub hardware_accelerated: bool,
    /// Memory the monitor needs beside its guest's, for the control group's headroom.
    pub memory_overhead_mib: u64,
    /// Threads and processes the monitor needs beside one per virtual processor.
    pub thread_overhead: u64,
}
