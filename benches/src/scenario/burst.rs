//! Many starts at once: how long until all of them can be used.

use std::time::Instant;

use anyhow::Result;
use futures::future::join_all;
use rekindle::vm::Vm;

use super::Scenario;
use super::starts::host_at_rest;
use crate::bed::Bed;
use crate::page_cache;
use crate::record::{Kind, PageCache, Record, Sample, millis};

/// The name of the series of `count` at once.
#[must_use]
pub fn name(count: usize) -> String {
    format!("burst_{count}")
}

/// Starts `count` clones at the same moment.
///
/// # Errors
/// When one of them does not start.
pub async fn sample(bed: &Bed, count: usize, record: &mut Record) -> Result<()> {
    page_cache::warm(&bed.read_by_restore())?;
    host_at_rest().await;
    let begun = Instant::now();
    let started = join_all((0..count).map(|_| async {
        let vm = bed.clone().await;
        (vm, begun.elapsed())
    }))
    .await;
    let whole = begun.elapsed();
    let mut failed = None;
    let mut clones = Vec::new();
    let mut times = Vec::new();
    for (vm, took) in started {
        match vm {
            Ok(vm) => clones.push(vm),
            Err(error) => failed = Some(error),
        }
        times.push(took);
    }
    join_all(clones.into_iter().map(Vm::stop)).await;
    if let Some(error) = failed {
        return Err(error);
    }
    let kind =
        |name: String, what: String| Kind::time(Scenario::Burst, &name, &what).with_cache(PageCache::Hot);
    let plural = if count == 1 { "start" } else { "starts at once" };
    record.add(kind(name(count), format!("{count} {plural}, until all are usable")), Sample::of(whole));
    let each = kind(format!("{}_each", name(count)), format!("each of {count} {plural}, until it is usable"));
    for took in times {
        record.add(each.clone(), Sample::number(millis(took)));
    }
    Ok(())
}
