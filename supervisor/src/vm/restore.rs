//! Makes clones of a snapshot. One that says nothing is replaced, once.
//!
//! ```text
//! reserve, restore ──▶ dial, hello, gate ──▶ Vm
//!        ▲                    └── not a word in its time: ended and counted ──┐
//!        └───────────── once more, in what is left of the time ───────────────┘
//! ```
//!
//! Only silence is worth a second machine. A guest that refuses, a monitor that fails and limits that cannot be
//! set would say the same again.

use std::time::Instant;

use super::error::StartError;
use super::gate::Identity;
use super::handle::Vm;
use super::host::VmHost;
use super::phases::{Plan, Prespawned, Reserved};
use super::scratch::ScratchPlan;
use super::working_set;
use crate::engine::{IoThrottle, SnapshotFiles, Stopwatch};
use crate::store::Snapshot;
use crate::tuning::{self, Mechanism};

/// A clone may keep silent for one part in so many of the plan's deadline: far longer than one takes on a busy
/// host, and short enough that whoever waits sees the second.
const PATIENCE_PARTS: u32 = 4;

/// Restores a clone of a snapshot and makes it its own. Whatever disk `plan` names, it gets the snapshot's.
///
/// # Errors
/// See [`StartError`]; of two clones that kept silent, what the second one gave.
pub async fn restore_clone(
    host: &VmHost,
    snapshot: &Snapshot,
    plan: &Plan,
    identity: &Identity,
) -> Result<Vm, StartError> {
    if tuning::on(Mechanism::WorkingSet) {
        working_set::bring_in(snapshot);
    }
    let (began, mut watch) = (Instant::now(), Stopwatch::start());
    let patience = plan.deadline / PATIENCE_PARTS;
    let first = reserve(host, snapshot, plan).await?.answering_within(patience);
    let silence = match wake(first, host, snapshot, identity).await {
        Err(error) if error.is_silence() => error,
        answered => return answered,
    };
    let left = plan.deadline.saturating_sub(began.elapsed());
    if left < patience {
        return Err(silence);
    }
    tracing::warn!(error = &silence as &dyn std::error::Error, "a clone kept silent and is replaced");
    host.count_repeated_restore();
    watch.stage("silent");
    let second = reserve(host, snapshot, &Plan { deadline: left, ..plan.clone() }).await?;
    Ok(wake(second, host, snapshot, identity).await?.started_after(watch.finish()))
}

/// Starts a monitor that waits to become a clone of a snapshot, with its disk and its control group in place.
///
/// # Errors
/// See [`StartError`].
pub async fn prespawn_clone(
    host: &VmHost,
    snapshot: &Snapshot,
    plan: &Plan,
) -> Result<Prespawned, StartError> {
    let reserved = reserve(host, snapshot, plan).await?.answering_within(plan.deadline / PATIENCE_PARTS);
    reserved.prespawn(host, files(snapshot)).await
}

/// A snapshot as engines take it.
#[must_use]
pub fn files(snapshot: &Snapshot) -> SnapshotFiles {
    let io = snapshot.manifest().machine.scratch_traffic.map(|traffic| IoThrottle {
        bytes_per_second: traffic.bytes_per_second,
        operations_per_second: traffic.operations_per_second,
    });
    let prefault = tuning::on(Mechanism::PrefaultClones);
    let set = snapshot.working_set().filter(|_| prefault);
    let prefault = set.map_or_else(Default::default, |set| set.prefault().collect());
    SnapshotFiles { io, prefault, ..SnapshotFiles::in_dir(snapshot.dir()) }
}

async fn reserve(host: &VmHost, snapshot: &Snapshot, plan: &Plan) -> Result<Reserved, StartError> {
    let plan = Plan { scratch: ScratchPlan::CopyOf(snapshot.scratch()), ..plan.clone() };
    Reserved::reserve(host, &plan).await
}

async fn wake(
    reserved: Reserved,
    host: &VmHost,
    snapshot: &Snapshot,
    identity: &Identity,
) -> Result<Vm, StartError> {
    reserved.restore(host, files(snapshot)).await?.connect().await?.open_gate(identity).await
}
