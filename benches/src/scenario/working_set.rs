//! What reading the working set early is worth: restores with and without it, page cache cold and hot, each
//! to the end of the first Python program.
//!
//! It should pay where the snapshot is on the disk, and cost nothing to speak of where it is in memory.

use std::time::Instant;

use anyhow::{Context, Result};
use rekindle::vm::{Identity, Plan, Reserved, ScratchPlan, Vm};

use super::Scenario;
use super::first_run::PYTHON;
use crate::bed::Bed;
use crate::page_cache;
use crate::record::{Kind, PageCache, Record, Sample};

/// One restore each way with each state of the cache.
///
/// # Errors
/// When one fails, or the snapshot has no working set.
pub async fn sample(bed: &Bed, record: &mut Record) -> Result<()> {
    bed.snapshot.working_set().context("the snapshot has no working set; build the template again")?;
    for (cache, state) in [(PageCache::Cold, "cold"), (PageCache::Hot, "hot")] {
        for (early, way) in [(false, "without"), (true, "with")] {
            match cache {
                PageCache::Cold => page_cache::evict(&bed.read_by_restore())?,
                PageCache::Hot | PageCache::Any => page_cache::warm(&bed.read_by_restore())?,
            }
            let begun = Instant::now();
            let vm = if early { bed.clone().await? } else { plain(bed).await? };
            let restored = begun.elapsed();
            let ran = PYTHON.execute(vm.agent(), PYTHON.plain()).await;
            let took = begun.elapsed();
            vm.stop().await;
            ran?;
            let what = |end: &str| format!("{way} reading the working set early, to {end}");
            let kind =
                |name: String, what: String| Kind::time(Scenario::WorkingSet, &name, &what).with_cache(cache);
            record.add(
                kind(format!("ws_{state}_{way}"), what("the end of the first Python program")),
                Sample::of(took),
            );
            record.add(kind(format!("ws_{state}_{way}_usable"), what("an open gate")), Sample::of(restored));
        }
    }
    Ok(())
}

/// A clone by the same steps, and nothing read early.
async fn plain(bed: &Bed) -> Result<Vm> {
    let plan = Plan { scratch: ScratchPlan::CopyOf(bed.snapshot.scratch()), ..bed.source.plan() };
    let reserved = Reserved::reserve(&bed.host, &plan).await?;
    let connected = reserved.restore(&bed.host, bed.files()).await?.connect().await?;
    Ok(connected.open_gate(&Identity::default()).await?)
}
