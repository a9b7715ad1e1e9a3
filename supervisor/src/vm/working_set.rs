//! The working set of a template: found out once, when the template is built, and used by every restore that
//! finds its files on the disk.
//!
//! ```text
//! build ──▶ one clone ──▶ the readiness check as its first program ──▶ which pages are mapped ──▶ kept
//! restore ──▶ a look at the page cache ──(cold)──▶ those parts are read while the monitor starts
//! ```
//!
//! Called by `template`. A page counts as touched when the monitor has it mapped. The kernel maps the
//! neighbours of a page with it, up to sixteen pages, so that is the grain of the set.

use std::collections::BTreeSet;
use std::fs::{self, File};
use std::io;
use std::os::unix::fs::{FileExt, MetadataExt};
use std::path::Path;

use super::error::StartError;
use super::gate::Identity;
use super::host::VmHost;
use super::phases::{Plan, Reserved, ScratchPlan};
use super::restore::files;
use crate::agent::{AgentError, ExecuteRequest};
use crate::host::page_cache;
use crate::store::{Snapshot, StoreError, WorkingSet};

const PAGE: u64 = 4096;
/// Pages the kernel maps together.
const AROUND: u64 = 16;
const BLOCK: u64 = PAGE * AROUND;
/// Set in an entry of a page map for a page that is there.
const PRESENT: u64 = 1 << 63;
/// Entries of a page map read at once.
const ENTRIES: usize = 4096;

/// Why a working set was not found out. The template works without.
#[derive(Debug, thiserror::Error)]
pub(super) enum RecordError {
    #[error("no clone could be started")]
    Start(#[source] StartError),
    #[error("its first program could not be run")]
    Run(#[source] AgentError),
    #[error("its memory could not be looked at")]
    Look(#[source] io::Error),
    #[error("the working set could not be kept")]
    Keep(#[source] StoreError),
}

/// Runs the first program of a first clone and keeps what it touched.
pub(super) async fn record(
    host: &VmHost,
    snapshot: &Snapshot,
    plan: &Plan,
    program: Option<ExecuteRequest>,
) -> Result<(), RecordError> {
    let plan = Plan { scratch: ScratchPlan::CopyOf(snapshot.scratch()), ..plan.clone() };
    let reserved = Reserved::reserve(host, &plan).await.map_err(RecordError::Start)?;
    let running = reserved.restore(host, files(snapshot)).await.map_err(RecordError::Start)?;
    let monitor = running.process_id();
    let connected = running.connect().await.map_err(RecordError::Start)?;
    let vm = connected.open_gate(&Identity::default()).await.map_err(RecordError::Start)?;
    let ran = match program {
        Some(program) => vm.agent().run(program).await.map(|_| ()),
        None => Ok(()),
    };
    let memory = snapshot.memory();
    let looked = tokio::task::spawn_blocking(move || {
        let monitor = monitor.ok_or(io::ErrorKind::NotFound)?;
        touched(monitor, &memory)
    });
    let looked = looked.await.unwrap_or_else(|error| Err(io::Error::other(error)));
    vm.stop().await;
    ran.map_err(RecordError::Run)?;
    let set = WorkingSet::of_blocks(looked.map_err(RecordError::Look)?, BLOCK);
    tracing::debug!(mib = set.bytes() >> 20, parts = set.parts().len(), "the working set is known");
    snapshot.keep_working_set(&set).map_err(RecordError::Keep)
}

/// Lets the working set be read in the background, if it is known and not in memory.
pub(super) fn bring_in(snapshot: &Snapshot) {
    let Some(set) = snapshot.working_set() else { return };
    let (path, parts) = (snapshot.memory(), set.parts().to_vec());
    tokio::task::spawn_blocking(move || {
        let asked = File::open(&path).and_then(|file| page_cache::bring_in(&file, &parts));
        match asked {
            Ok(0) => {}
            Ok(bytes) => tracing::debug!(mib = bytes >> 20, "the working set is read from the disk"),
            // The restore reads what it needs by itself.
            Err(error) => tracing::debug!(%error, "the working set was not read early"),
        }
    });
}

/// The blocks of `file` that a process, or one that it started, has mapped and touched.
fn touched(pid: u32, file: &Path) -> io::Result<BTreeSet<u64>> {
    let facts = fs::metadata(file)?;
    let mut blocks = BTreeSet::new();
    let mut family = vec![pid];
    while let Some(pid) = family.pop() {
        let proc = Path::new("/proc").join(pid.to_string());
        for task in fs::read_dir(proc.join("task"))? {
            let children = fs::read_to_string(task?.path().join("children")).unwrap_or_default();
            family.extend(children.split_ascii_whitespace().filter_map(|pid| pid.parse::<u32>().ok()));
        }
        let maps = fs::read_to_string(proc.join("maps"))?;
        let ours: Vec<Mapping> =
            maps.lines().filter_map(|line| Mapping::of_inode(line, facts.ino())).collect();
        if !ours.is_empty() {
            let pagemap = File::open(proc.join("pagemap"))?;
            for mapping in ours {
                mapping.present(&pagemap, &mut blocks)?;
            }
        }
    }
    Ok(blocks)
}

/// A file's place in a process's memory.
#[derive(Debug, PartialEq, Eq)]
struct Mapping {
    start: u64,
    end: u64,
    offset: u64,
}

impl Mapping {
    /// Reads a line of `/proc/<pid>/maps`, if it is about this inode.
    fn of_inode(line: &str, inode: u64) -> Option<Self> {
        let mut words = line.split_ascii_whitespace();
        let (start, end) = words.next()?.split_once('-')?;
        let offset = words.nth(1)?;
        if words.nth(1)?.parse() != Ok(inode) {
            return None;
        }
        let number = |text| u64::from_str_radix(text, 16).ok();
        Some(Self { start: number(start)?, end: number(end)?, offset: number(offset)? })
    }

    fn present(&self, pagemap: &File, blocks: &mut BTreeSet<u64>) -> io::Result<()> {
        let mut buffer = vec![0; ENTRIES * 8];
        let pages = (self.end - self.start) / PAGE;
        let mut page = 0;
        while page < pages {
            let wanted = usize::try_from(pages - page).map_or(ENTRIES, |left| left.min(ENTRIES));
            let part = &mut buffer[..wanted * 8];
            pagemap.read_exact_at(part, (self.start / PAGE + page) * 8)?;
            for entry in part.chunks_exact(8) {
                let bits = u64::from_ne_bytes(entry.try_into().unwrap_or_default());
                if bits & PRESENT != 0 {
                    blocks.insert((self.offset + page * PAGE) / BLOCK);
                }
                page += 1;
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    //! Lines of the kernel, and this process's own memory.

    use super::*;

    #[test]
    fn a_mapping_is_recognised_by_its_inode() {
        let line = "7f00a0000000-7f00c0000000 rw-p 00001000 fe:00 4242                       /memory";
        let mapping = Mapping { start: 0x7f00_a000_0000, end: 0x7f00_c000_0000, offset: 0x1000 };
        assert_eq!(Mapping::of_inode(line, 4242), Some(mapping));
        assert_eq!(Mapping::of_inode(line, 42), None);
        assert_eq!(Mapping::of_inode("7ffd1000-7ffd2000 rw-p 00000000 00:00 0 [stack]", 4242), None);
        assert_eq!(Mapping::of_inode("", 1), None);
    }

    #[test]
    fn this_programs_own_file_is_mapped_and_touched() {
        let program = std::env::current_exe().unwrap();
        let blocks = touched(std::process::id(), &program).unwrap();
        assert!(!blocks.is_empty());
        let length = fs::metadata(&program).unwrap().len();
        assert!(blocks.iter().all(|block| block * BLOCK < length));
    }
}
