//! The engine: the programs, and the entry to the verbs.

use super::find::FoundFirecracker;
use super::{launch, restore};
use crate::engine::{
    BootSpec, BoxFuture, Capabilities, Engine, EngineError, EngineIdentity, EngineKind, PrespawnedMonitor,
    RestoreSpec, Started,
};
use crate::host::cpu::CpuIdentity;

/// Memory of the program, its copy in the jail, and the kernel on its behalf, in MiB.
const PROGRAM_MIB: u64 = 64;

/// What holds a monitor back.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum Confinement {
    /// Firecracker's jailer: a root directory and a user of its own.
    #[default]
    Jailed,
    /// Only what is ours: namespaces, the control group, Firecracker's own system-call filters. It runs as
    /// the supervisor's user and sees the host's files. For development.
    Bare,
}

/// Firecracker on this host.
#[derive(Debug)]
pub struct FirecrackerEngine {
    pub(super) firecracker: FoundFirecracker,
    pub(super) confinement: Confinement,
    identity: EngineIdentity,
    capabilities: Capabilities,
}

impl FirecrackerEngine {
    /// Sets the engine up.
    #[must_use]
    pub fn new(firecracker: FoundFirecracker) -> Self {
        Self::confined(firecracker, Confinement::Jailed)
    }

    /// Sets the engine up with or without the jailer.
    #[must_use]
    pub fn confined(firecracker: FoundFirecracker, confinement: Confinement) -> Self {
        let identity = EngineIdentity {
            engine: EngineKind::Firecracker,
            version: firecracker.version.to_string(),
            accelerator: "kvm".to_owned(),
            cpu: CpuIdentity::read(),
        };
        let capabilities = Capabilities {
            hardware_accelerated: true,
            memory_overhead_mib: PROGRAM_MIB,
            // The monitor's main and API threads, and the kernel's workers.
            thread_overhead: 16,
        };
        Self { firecracker, confinement, identity, capabilities }
    }
}

impl Engine for FirecrackerEngine {
    fn identity(&self) -> &EngineIdentity {
        &self.identity
    }

    fn capabilities(&self) -> &Capabilities {
        &self.capabilities
    }

    fn launch(&self, spec: BootSpec) -> BoxFuture<'_, Result<Started, EngineError>> {
        Box::pin(launch::launch(self, spec))
    }

    fn prespawn(&self, spec: RestoreSpec) -> BoxFuture<'_, Result<Box<dyn PrespawnedMonitor>, EngineError>> {
        Box::pin(restore::prespawn(self, spec))
    }
}
