//! A machine that was restored beforehand and is claimed from the pool, to an open gate and to the first output.
//!
//! The pool refills itself between samples and is waited for, as it would be on a host that is not overrun.

use std::sync::Arc;
use std::time::Instant;

use anyhow::{Result, ensure};
use rekindle::pool::{ClaimRequest, Pool, PoolConfig, PooledTemplate, StartKind, Watermarks};
use rekindle::vm::Identity;
use tokio::time::timeout;

use super::Scenario;
use super::starts;
use crate::bed::{Bed, PATIENCE};
use crate::record::{PageCache, Record, Sample};

/// Machines that wait: one is claimed, and one is left for the next caller, as in a pool that keeps up.
const PARKED: Watermarks = Watermarks { low: 2, high: 2 };
/// More than a few machines ever need.
const MEMORY_MIB: u64 = 1 << 20;
const MILLI_CPUS: u64 = 1 << 20;

/// A pool of the template's machines.
#[must_use]
pub fn pool(bed: &Bed, parked: Watermarks) -> Pool {
    let template = PooledTemplate {
        source: bed.source.clone(),
        snapshot: Arc::clone(&bed.snapshot),
        parked,
        prespawned: 0,
    };
    Pool::start(Arc::clone(&bed.host), vec![template], PoolConfig::new(MEMORY_MIB, MILLI_CPUS))
}

/// A pool that keeps one machine parked.
#[must_use]
pub fn parking(bed: &Bed) -> Pool {
    pool(bed, PARKED)
}

/// One claim of a parked machine.
///
/// # Errors
/// When none is parked, or it fails.
pub async fn sample(bed: &Bed, pool: &Pool, record: &mut Record) -> Result<()> {
    let mut status = pool.watch();
    // Nothing is being made: the claim has the machine's processors for itself.
    let ready = status.wait_for(|status| {
        status.templates.iter().all(|template| template.parked >= PARKED.high && template.filling == 0)
    });
    timeout(PATIENCE, ready).await??;
    starts::host_at_rest().await;
    let begun = Instant::now();
    let lease = pool
        .claim(ClaimRequest {
            template: bed.source.recipe.name.clone(),
            tenant: Some("bench".into()),
            cpu: None,
            identity: Identity::default(),
            wait: PATIENCE,
        })
        .await?;
    let took = begun.elapsed();
    ensure!(lease.kind == StartKind::Parked, "the claim was served by {:?}", lease.kind);
    let sample = Sample::start(&lease.timings, took);
    let output = starts::first_output(lease.vm.agent()).await?;
    starts::add(&sample, output, Scenario::ClaimParked, "claim_parked", PageCache::Hot, record);
    lease.vm.end().await;
    Ok(())
}
