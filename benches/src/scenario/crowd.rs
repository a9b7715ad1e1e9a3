//! Many clones at once: how long until all of them can be used, and what each has for itself while it is idle.

use std::fs;
use std::time::{Duration, Instant};

use anyhow::{Context, Result};
use futures::future::join_all;
use rekindle::vm::Vm;

use super::Scenario;
use super::starts::host_at_rest;
use crate::bed::Bed;
use crate::page_cache;
use crate::record::{Kind, PageCache, Record, Sample, Unit};

/// Clones whose memory is looked at: of one alone, a page that only it has read would count as its own.
pub const CROWD: usize = 8;

/// The name of the series of `count` at once.
#[must_use]
pub fn name(count: usize) -> String {
    format!("burst_{count}")
}

/// Starts clones at the same moment, and says when each was usable. None is left when one does not start.
async fn start(bed: &Bed, count: usize) -> Result<Vec<(Vm, Duration)>> {
    let begun = Instant::now();
    let one = async |_| bed.clone().await.map(|vm| (vm, begun.elapsed()));
    let (mut started, mut failed) = (Vec::new(), None);
    for clone in join_all((0..count).map(one)).await {
        match clone {
            Ok(clone) => started.push(clone),
            Err(error) => failed = Some(error),
        }
    }
    match failed {
        None => Ok(started),
        Some(error) => {
            stop(started).await;
            Err(error)
        }
    }
}

async fn stop(clones: Vec<(Vm, Duration)>) {
    join_all(clones.into_iter().map(|(vm, _)| vm.stop())).await;
}

/// How long `count` starts at once take.
///
/// # Errors
/// When one of them does not start.
pub async fn burst(bed: &Bed, count: usize, record: &mut Record) -> Result<()> {
    page_cache::warm(&bed.read_by_restore())?;
    host_at_rest().await;
    let started = start(bed, count).await?;
    let times: Vec<Duration> = started.iter().map(|(_, took)| *took).collect();
    stop(started).await;
    let kind =
        |name: String, what: String| Kind::time(Scenario::Burst, &name, &what).with_cache(PageCache::Hot);
    let plural = if count == 1 { "start" } else { "starts at once" };
    let all = kind(name(count), format!("{count} {plural}, until all are usable"));
    record.add(all, Sample::of(times.iter().copied().max().unwrap_or_default()));
    let each = kind(format!("{}_each", name(count)), format!("each of {count} {plural}, until it is usable"));
    for took in times {
        record.add(each.clone(), Sample::of(took));
    }
    Ok(())
}

/// What each of a crowd has for itself: memory that would be free again without it.
///
/// # Errors
/// When a clone does not start, or does not tell.
pub async fn density(bed: &Bed, record: &mut Record) -> Result<()> {
    let clones = start(bed, CROWD).await?;
    let read = clones.iter().map(|(vm, _)| Memory::of(bed, vm)).collect::<Result<Vec<_>>>();
    stop(clones).await;
    for memory in read? {
        let mut add = |name: &str, what: &str, kib: u64| {
            let kind = Kind::time(Scenario::Density, name, what).in_unit(Unit::Mebibytes);
            record.add(kind, Sample::number(kib as f64 / 1024.0));
        };
        add("private", "private memory of an idle clone, one of eight", memory.private);
        add("anonymous", "its anonymous memory", memory.anonymous);
        add("proportional", "its share of all memory it maps", memory.proportional);
    }
    Ok(())
}

/// In KiB, of a monitor and all its processes.
#[derive(Debug, Default)]
struct Memory {
    private: u64,
    anonymous: u64,
    proportional: u64,
}

impl Memory {
    fn of(bed: &Bed, vm: &Vm) -> Result<Self> {
        let mut memory = Self::default();
        for pid in bed.processes(vm)? {
            let path = format!("/proc/{pid}/smaps_rollup");
            let text = fs::read_to_string(&path).with_context(|| format!("cannot read {path}"))?;
            let field = |name: &str| -> u64 {
                let line = text.lines().find(|line| line.starts_with(name));
                line.and_then(|line| line.split_whitespace().nth(1)?.parse().ok()).unwrap_or_default()
            };
            memory.private += field("Private_Dirty:") + field("Private_Clean:");
            memory.anonymous += field("Anonymous:");
            memory.proportional += field("Pss:");
        }
        Ok(memory)
    }
}
