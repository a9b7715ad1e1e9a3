//! What an idle clone has for itself: memory that would be free again without it.
//!
//! Several clones at once, because a page that only one clone has read would otherwise count as its own.

use std::fs;

use anyhow::{Context, Result};
use futures::future::join_all;
use rekindle::vm::Vm;

use super::Scenario;
use crate::bed::Bed;
use crate::record::{Kind, Record, Sample, Unit};

/// Clones at once.
pub const CROWD: usize = 8;

/// One crowd.
///
/// # Errors
/// When a clone does not start, or does not tell.
pub async fn sample(bed: &Bed, record: &mut Record) -> Result<()> {
    let mut clones: Vec<Vm> = Vec::new();
    let mut failed = None;
    for clone in join_all((0..CROWD).map(|_| bed.clone())).await {
        match clone {
            Ok(vm) => clones.push(vm),
            Err(error) => failed = Some(error),
        }
    }
    let read = clones.iter().map(|vm| Memory::of(bed, vm)).collect::<Result<Vec<_>>>();
    join_all(clones.into_iter().map(Vm::stop)).await;
    if let Some(error) = failed {
        return Err(error);
    }
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
