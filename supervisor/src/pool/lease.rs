//! A claimed machine, and what stands behind it until it is handed over.
//!
//! ```text
//! Grant (permit, perhaps a machine) ──made──▶ Lease ──dropped──▶ the budget has its share back
//!    └──dropped: the machine is ended in the background, then the share goes back
//! ```

use std::sync::Arc;
use std::time::Duration;

use tokio::runtime::Handle;
use tokio::sync::mpsc;

use super::actor::Request;
use super::config::PooledTemplate;
use super::demand::Demand;
use crate::engine::Timings;
use crate::vm::{Prespawned, Vm};

/// How a claim got its machine.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum StartKind {
    /// It was restored and waiting.
    Parked,
    /// Its monitor was waiting.
    Prespawned,
    /// It was restored for this claim.
    Restored,
}

/// A machine that is the holder's alone.
///
/// Dropping the lease returns its share of the budget at once. The holder therefore ends the machine first,
/// with [`Vm::end`]; else what it still uses for a moment is handed out twice.
#[derive(Debug)]
pub struct Lease {
    /// The machine.
    pub vm: Arc<Vm>,
    /// How it came to be.
    pub kind: StartKind,
    /// How long the claim waited for room. It is part of the stage `claim`.
    pub queued: Duration,
    /// Where the time of the claim went, from the call on.
    pub timings: Timings,
    /// Its template, whose snapshot must stay while the machine is mapped over it.
    pub template: Arc<PooledTemplate>,
    pub(super) _permit: Permit,
}

impl Lease {
    /// Gives everything back but the disk: the machine has ended, and its disk was kept.
    pub fn keep_disk_alone(&mut self) {
        self._permit.keep_disk_alone();
    }

    /// Takes over a machine that was booted with that disk.
    pub fn boot_with(&mut self, booted: Booted) {
        self.vm = booted.vm;
        self._permit.join(booted.permit);
    }
}

/// A machine that was booted with the disk of a [`Lease`], and its share of the budget without that disk.
#[derive(Debug)]
pub struct Booted {
    pub(super) vm: Arc<Vm>,
    /// Where the time went.
    pub timings: Timings,
    pub(super) permit: Permit,
}

/// A share of the budget, returned when it is dropped.
#[derive(Debug)]
pub(super) struct Permit {
    pub(super) demand: Demand,
    pub(super) requests: mpsc::UnboundedSender<Request>,
}

impl Permit {
    fn keep_disk_alone(&mut self) {
        let kept = self.demand.disk_alone();
        let _ = self.requests.send(Request::Released(self.demand.minus(kept)));
        self.demand = kept;
    }

    /// Both become one.
    fn join(&mut self, mut other: Self) {
        self.demand = self.demand.plus(std::mem::take(&mut other.demand));
    }
}

impl Drop for Permit {
    fn drop(&mut self) {
        // A pool that is gone has no budget to keep.
        let _ = self.requests.send(Request::Released(self.demand));
    }
}

/// Something that was made ahead.
#[derive(Debug)]
pub(super) enum Ready {
    Parked(Arc<Vm>),
    Prespawned(Box<Prespawned>),
}

impl Ready {
    /// Ends it and waits until nothing of it is left.
    pub(super) async fn end(self) {
        match self {
            Self::Parked(vm) => drop(vm.end().await),
            Self::Prespawned(waiting) => waiting.fail().await,
        }
    }
}

/// A claim that was admitted.
#[derive(Debug)]
pub(super) struct Grant {
    permit: Option<Permit>,
    pub(super) machine: Option<Ready>,
}

impl Grant {
    pub(super) fn new(permit: Permit, machine: Option<Ready>) -> Self {
        Self { permit: Some(permit), machine }
    }

    /// The share, once the machine is the caller's.
    pub(super) fn into_permit(mut self) -> Option<Permit> {
        self.machine = None;
        self.permit.take()
    }
}

impl Drop for Grant {
    fn drop(&mut self) {
        let (machine, permit) = (self.machine.take(), self.permit.take());
        // Without a runtime everything ends by itself.
        if let (Some(machine), Ok(runtime)) = (machine, Handle::try_current()) {
            runtime.spawn(async move {
                machine.end().await;
                drop(permit);
            });
        }
    }
}
