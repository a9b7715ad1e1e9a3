//! The engine: the programs, and the entry to the verbs.

use super::find::FoundFirecracker;
use super::{launch, restore};
use crate::engine::{
    BootSpec, BoxFuture, Capabilities, Engine, EngineError, EngineIdentity, EngineKind, Prepared,
    RestoreSpec, Started,
};
use crate::host::cpu::CpuIdentity;

/// Memory of the program, its copy in the jail, the two small processes before it, and the kernel on its
/// behalf, in MiB.
const PROGRAM_MIB: u64 = 64;

/// Firecracker on this host.
#[derive(Debug)]
pub struct FirecrackerEngine {
    pub(super) firecracker: FoundFirecracker,
    identity: EngineIdentity,
    capabilities: Capabilities,
}

impl FirecrackerEngine {
    /// Sets the engine up.
    #[must_use]
    pub fn new(firecracker: FoundFirecracker) -> Self {
        let identity = EngineIdentity {
            engine: EngineKind::Firecracker,
            version: firecracker.version.to_string(),
            accelerator: "kvm".to_owned(),
            cpu: CpuIdentity::read(),
        };
        let capabilities = Capabilities {
            hardware_accelerated: true,
            memory_overhead_mib: PROGRAM_MIB,
            // The monitor's main and API threads, the two processes before it, and the kernel's workers.
            thread_overhead: 16,
        };
        Self { firecracker, identity, capabilities }
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

    fn prepare(&self, spec: RestoreSpec) -> BoxFuture<'_, Result<Box<dyn Prepared>, EngineError>> {
        Box::pin(restore::prepare(self, spec))
    }
}
