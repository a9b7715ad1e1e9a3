//! What a snapshot is: where it comes from, what it needs, and the hashes of its files.

use serde::{Deserialize, Serialize};
use sha2::{Digest, Sha256};

use super::digest::hex;
use super::root::{FILES, MEMORY, SCRATCH, STATE};
use crate::config::TemplateName;
use crate::host::cpu::CpuIdentity;

/// The format of manifests and files; another one is refused.
pub(super) const FORMAT: u32 = 1;

/// What made a snapshot and can restore it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Origin {
    /// The engine's name.
    pub engine: String,
    /// The monitor's full version.
    pub version: String,
    /// How guest code is run.
    pub accelerator: String,
    /// The host's processor.
    pub cpu: CpuIdentity,
}

/// Everything that went into a snapshot. The same inputs make a snapshot that can stand in for it; any other
/// input makes it unusable.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Inputs {
    /// Engine and host.
    pub origin: Origin,
    /// SHA-256 of the kernel.
    pub kernel: String,
    /// SHA-256 of the root image.
    pub image: String,
    /// Digest of the recipe.
    pub recipe: String,
}

/// The virtual hardware.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Machine {
    /// Virtual processors.
    pub vcpus: u32,
    /// Memory in MiB.
    pub memory_mib: u32,
    /// Size of the scratch disk in MiB.
    pub scratch_mib: u64,
    /// What bounds that disk's traffic; snapshots of older versions do not say.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub scratch_traffic: Option<Traffic>,
}

/// Bounds on a disk's traffic, reading and writing together; `None` is unbounded.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Traffic {
    /// Bytes a second.
    pub bytes_per_second: Option<u64>,
    /// Operations a second.
    pub operations_per_second: Option<u64>,
}

/// A file of the snapshot.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct FileFacts {
    /// SHA-256 of all its bytes, holes read as zeros.
    pub sha256: String,
    /// Its length in bytes.
    pub size: u64,
}

/// A snapshot's description, stored beside its files.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Manifest {
    /// The format of this file.
    pub format: u32,
    /// The template.
    pub template: TemplateName,
    /// When it was made, in seconds since 1970.
    pub created: u64,
    /// The version of the agent that runs in it.
    pub agent: String,
    /// What went into it.
    pub inputs: Inputs,
    /// The virtual hardware.
    pub machine: Machine,
    /// The guest's memory.
    pub memory: FileFacts,
    /// The state of processors and devices.
    pub state: FileFacts,
    /// The scratch disk as it was when the machine was frozen.
    pub scratch: FileFacts,
}

impl Manifest {
    /// Every file of the snapshot by name.
    pub(super) fn files(&self) -> [(&'static str, &FileFacts); FILES.len()] {
        [(MEMORY, &self.memory), (STATE, &self.state), (SCRATCH, &self.scratch)]
    }

    /// The content's address: it covers everything but the time.
    #[must_use]
    pub fn digest(&self) -> String {
        let timeless = Self { created: 0, ..self.clone() };
        let text = serde_json::to_vec(&timeless).expect("a manifest of strings and numbers is always JSON");
        let mut digest = hex(&Sha256::digest(&text));
        digest.truncate(32);
        digest
    }
}
