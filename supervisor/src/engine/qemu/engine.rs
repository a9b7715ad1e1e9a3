//! The engine: a program, how it runs guest code, and the entry to the verbs.

use tokio::sync::OnceCell;

use super::args::{Accelerator, TRANSLATION_CACHE_MIB};
use super::find::FoundQemu;
use super::{launch, restore};
use crate::engine::{
    BootSpec, BoxFuture, Capabilities, Engine, EngineError, EngineIdentity, EngineKind, PrespawnedMonitor,
    RestoreSpec, Started,
};
use crate::host::cpu::{self, CpuIdentity};
use crate::host::kvm::KvmStatus;

/// Memory of the program itself, its device models and its page tables, in MiB.
const PROGRAM_MIB: u64 = 96;

/// QEMU on this host.
#[derive(Debug)]
pub struct QemuEngine {
    pub(super) qemu: FoundQemu,
    pub(super) accelerator: Accelerator,
    identity: EngineIdentity,
    capabilities: Capabilities,
    tsc_khz: OnceCell<Option<u32>>,
}

impl QemuEngine {
    /// Sets the engine up; KVM is used where it is really usable.
    #[must_use]
    pub fn new(qemu: FoundQemu, kvm: &KvmStatus) -> Self {
        let accelerator = if kvm.is_usable() { Accelerator::Kvm } else { Accelerator::Tcg };
        let identity = EngineIdentity {
            engine: EngineKind::Qemu,
            version: qemu.version_text.clone(),
            accelerator: accelerator.name().to_owned(),
            cpu: CpuIdentity::read(),
        };
        let capabilities = Capabilities {
            hardware_accelerated: accelerator == Accelerator::Kvm,
            memory_overhead_mib: PROGRAM_MIB
                + if accelerator == Accelerator::Tcg { TRANSLATION_CACHE_MIB } else { 0 },
            // The main loop, RCU, and a pool of workers for disk requests.
            thread_overhead: 72,
        };
        Self { qemu, accelerator, identity, capabilities, tsc_khz: OnceCell::new() }
    }

    /// The rate of the counter a booting guest needs to know, measured once.
    pub(super) async fn tsc_khz(&self) -> Option<u32> {
        let measure = || async { tokio::task::spawn_blocking(cpu::measure_tsc_khz).await.ok().flatten() };
        *self.tsc_khz.get_or_init(measure).await
    }
}

impl Engine for QemuEngine {
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
