//! Pauses a sandbox so that its disk alone is left of it, and boots it again from there.
//!
//! ```text
//!   running ──▶ programs end, everything on the disk ──▶ machine gone, memory given back ──▶ paused
//!      ▲  └──── the guest refused: it goes on ◀──┘                                             │
//!      └──────── network, limits, variables as before ◀── booted ◀── room for it? ◀──resume────┘
//! ```
//!
//! The sandbox keeps its name, its clocks, its place and its disk; its clocks run for as long as its machine does. Only its
//! keeper calls this.

use std::time::Duration;

use tokio::time::{Instant, timeout};

use super::detached::Cut;
use super::error::ServiceError;
use super::events::SandboxEventKind;
use super::keeper::Holdings;
use super::pause::{close_to_calls, end_wanted, let_run, set_running};
use super::registry::{Held, QuotaHold, Service};
use super::sandbox::{EndReason, Sandbox, SandboxView};
use crate::pool::Booted;
use crate::vm::KeptDisk;

/// How long programs have to end by themselves.
const GRACE: Duration = Duration::from_secs(5);
/// How long the guest may take for all of it: also to write what it holds in memory to a slow disk.
const STOP_WITHIN: Duration = Duration::from_secs(120);
/// How long what programs printed last may take to be read.
const LAST_WORDS: Duration = Duration::from_secs(2);

/// What a sandbox has while it is paused without its memory.
#[derive(Debug)]
pub(super) struct Stopped {
    pub disk: KeptDisk,
    /// What was given back of its tenant's quotas.
    returned: Held,
}

impl Service {
    pub(super) async fn pause_to_disk(
        &self,
        sandbox: &Sandbox,
        holdings: &mut Holdings,
    ) -> Result<SandboxView, ServiceError> {
        let was_running = close_to_calls(sandbox).await?;
        if holdings.stopped.is_some() {
            return Ok(sandbox.view());
        }
        if !was_running {
            // Its memory was kept until now, and only a guest that runs can leave it on its disk.
            let_run(sandbox).await?;
            sandbox.lock().lifetime.resume(Instant::now());
        }
        let vm = sandbox.vm();
        // Who reads its programs goes on until they have ended.
        sandbox.set_frozen(None);
        sandbox.refresh().await;
        // Somebody who wants its end does not wait for a guest that takes its time.
        let stopped = tokio::select! {
            stopped = vm.agent().stop(GRACE, STOP_WITHIN) => stopped,
            () = end_wanted(sandbox) => return Err(sandbox.over(&sandbox.lock(), true)),
        };
        if let Err(error) = stopped {
            if error.is_fatal() {
                sandbox.want_end(EndReason::AgentLost, format!("it could not be stopped: {error}"));
                return Err(sandbox.over(&sandbox.lock(), true));
            }
            if was_running {
                set_running(sandbox);
            } else if vm.pause().await.is_err() {
                sandbox.want_end(EndReason::VmLost, "its machine could be neither stopped nor paused");
            } else {
                stand_still(sandbox);
            }
            return Err(ServiceError::Agent(error));
        }
        let _ = timeout(LAST_WORDS, sandbox.detached_ended()).await;
        // Programs had their network to end with; what is still open has nobody now.
        sandbox.gate.pause();
        sandbox.refresh().await;
        let disk = match vm.end_keeping_disk().await {
            Ok(disk) => disk,
            Err(error) => {
                sandbox.want_end(EndReason::VmLost, format!("its disk could not be kept: {error}"));
                return Err(sandbox.over(&sandbox.lock(), true));
            }
        };
        stand_still(sandbox);
        sandbox.end_detached(&Cut::WithoutMemory).await;
        // Only now: the machine is gone.
        holdings.lease.keep_disk_alone();
        let returned = holdings.quota.keep_disk_alone();
        tracing::info!(disk_bytes = disk.bytes().ok(), "the sandbox keeps its disk alone");
        holdings.stopped = Some(Stopped { disk, returned });
        {
            let mut inner = sandbox.lock();
            inner.without_memory = true;
            inner.watchers.clear();
            inner.usage.machine = inner.usage.machine.gone();
            inner.machines_before = inner.usage.machine;
        }
        self.events().tell(SandboxEventKind::Paused, sandbox.view());
        Ok(sandbox.view())
    }

    /// Boots it. Refused, it stays as it is, and can be asked again.
    pub(super) async fn resume_from_disk(
        &self,
        sandbox: &Sandbox,
        holdings: &mut Holdings,
    ) -> Result<SandboxView, ServiceError> {
        if *self.draining().borrow() {
            return Err(ServiceError::ShuttingDown);
        }
        // Somebody who wants its end does not wait for its beginning.
        let (booted, quota) = tokio::select! {
            booted = self.boot(holdings) => booted?,
            () = end_wanted(sandbox) => return Err(sandbox.over(&sandbox.lock(), true)),
        };
        let stages = booted.timings.stages.iter().map(|stage| (stage.name, stage.took));
        self.metrics().start("booted", stages);
        holdings.lease.boot_with(booted);
        holdings.quota.join(quota);
        sandbox.set_vm(holdings.lease.vm.clone());
        sandbox.gate.unpause();
        sandbox.serve_network();
        if let Some(stopped) = holdings.stopped.take() {
            // The machine has it under a name of its own.
            stopped.disk.close().await;
        }
        set_running(sandbox);
        self.events().tell(SandboxEventKind::Resumed, sandbox.view());
        Ok(sandbox.view())
    }

    async fn boot(&self, holdings: &Holdings) -> Result<(Booted, QuotaHold), ServiceError> {
        let Some(stopped) = &holdings.stopped else { return Err(ServiceError::Paused) };
        let quota = holdings.quota.again(stopped.returned)?;
        let booted = self.pool().boot(&holdings.boot, &stopped.disk).await.map_err(ServiceError::Claim)?;
        Ok((booted, quota))
    }
}

/// Stops the clocks, now that nothing of it runs, and tells who waits for its programs.
fn stand_still(sandbox: &Sandbox) {
    let now = Instant::now();
    sandbox.lock().lifetime.pause(now);
    sandbox.set_frozen(Some(now));
}
