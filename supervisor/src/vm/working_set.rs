//! The working set of a template: found out once, when the template is built, and used by every restore that
//! finds its files on the disk.
//!
//! ```text
//! build ──▶ one clone ──▶ a line of shell or of Python as its first program ──▶ which pages it has copied ──▶ kept
//!                    └──▶ then the readiness check ──▶ which pages are mapped ──▶ kept
//! restore ──▶ a look at the page cache ──(cold)──▶ those parts are read while the monitor starts
//!                    └──▶ those pages are prefaulted, where the engine gains by it
//! ```
//!
//! Called by `template`. A page counts as touched when the monitor has it mapped. The kernel maps the
//! neighbours of a page with it, up to sixteen pages, so that is the grain of the set.

use std::collections::BTreeSet;
use std::fs::File;
use std::io;
use std::path::Path;
use std::time::Duration;

use super::error::StartError;
use super::gate::Identity;
use super::handle::Vm;
use super::host::VmHost;
use super::phases::{Plan, Reserved};
use super::scratch::ScratchPlan;
use crate::agent::{AgentError, Code, Event, ExecuteRequest, Execution, Language, Program};
use crate::engine::SnapshotFiles;
use crate::host::mapped::{Mapped, PAGE};
use crate::host::page_cache;
use crate::store::{Snapshot, StoreError, WorkingSet};

/// Pages the kernel maps together.
const AROUND: u64 = 16;
const BLOCK: u64 = PAGE * AROUND;
/// How long the smallest of programs may take.
const LEAST_DEADLINE: Duration = Duration::from_secs(60);

/// Does what every Python does, tells that it is done, and does not end: what the agent does after an end, such as
/// starting another interpreter to wait, is no part of it.
const PYTHON: &str = r#"
class Last:
    def __del__(self, print=print):
        print(end=".", flush=True)
        while True: pass
last = Last()
print(6 * 7)
"#;
const DONE: u8 = b'.';

/// What a clone runs whose memory is looked at.
#[derive(Debug)]
pub(super) struct First {
    /// Whether the template is one for Python.
    pub(super) python: bool,
    /// The program whose memory is read early.
    pub(super) program: Option<ExecuteRequest>,
}

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
    first: First,
) -> Result<(), RecordError> {
    let plan = Plan { scratch: ScratchPlan::CopyOf(snapshot.scratch()), ..plan.clone() };
    let reserved = Reserved::reserve(host, &plan).await.map_err(RecordError::Start)?;
    let files = SnapshotFiles::in_dir(snapshot.dir());
    let running = reserved.restore(host, files).await.map_err(RecordError::Start)?;
    let monitor = running.process_id();
    let connected = running.connect().await.map_err(RecordError::Start)?;
    let vm = connected.open_gate(&Identity::default()).await.map_err(RecordError::Start)?;
    let looked = look(&vm, monitor, &snapshot.memory(), first).await;
    vm.stop().await;
    let set = looked?;
    tracing::debug!(
        mib = set.bytes() >> 20,
        parts = set.parts().len(),
        prefault = set.prefault().len(),
        "the working set is known"
    );
    snapshot.keep_working_set(&set).map_err(RecordError::Keep)
}

/// Runs the programs and looks at the monitor's memory after each.
async fn look(vm: &Vm, monitor: Option<u32>, memory: &Path, first: First) -> Result<WorkingSet, RecordError> {
    let monitor = monitor.ok_or(RecordError::Look(io::ErrorKind::NotFound.into()))?;
    let blocking = async |look: fn(u32, &Path) -> io::Result<BTreeSet<u64>>| {
        let memory = memory.to_owned();
        let looked = tokio::task::spawn_blocking(move || look(monitor, &memory)).await;
        looked.unwrap_or_else(|error| Err(io::Error::other(error))).map_err(RecordError::Look)
    };
    let least = if first.python { run_python(vm).await } else { run_shell(vm).await };
    let least = least.map_err(RecordError::Run)?;
    let prefault = blocking(copied).await?;
    drop(least);
    if let Some(program) = first.program {
        vm.agent().run(program).await.map_err(RecordError::Run)?;
    }
    let touched = blocking(touched).await?;
    Ok(WorkingSet::of_blocks(touched, BLOCK).with_prefault(prefault))
}

/// Runs the smallest of programs.
async fn run_shell(vm: &Vm) -> Result<Option<Execution>, AgentError> {
    vm.agent().run(least(Program::Shell("echo".into()))).await.map(|_| None)
}

/// Runs Python up to its end. It waits there until it is dropped.
async fn run_python(vm: &Vm) -> Result<Option<Execution>, AgentError> {
    let code = Code { language: Language::Python as i32, source: PYTHON.to_owned() };
    let request = ExecuteRequest { stream: true, ..least(Program::Code(code)) };
    let mut execution = vm.agent().execute(request).await?;
    while let Some(event) = execution.next().await? {
        match event {
            Event::Output { data, .. } if data.ends_with(&[DONE]) => return Ok(Some(execution)),
            Event::Output { .. } => {}
            // It failed, and nothing is known of a Python.
            Event::Finished(_) => break,
        }
    }
    Ok(None)
}

fn least(program: Program) -> ExecuteRequest {
    ExecuteRequest {
        program: Some(program),
        timeout_millis: LEAST_DEADLINE.as_millis() as u64,
        ..ExecuteRequest::default()
    }
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

/// The blocks of a file that a process, or one that it started, has mapped and touched.
fn touched(pid: u32, file: &Path) -> io::Result<BTreeSet<u64>> {
    let mut blocks = BTreeSet::new();
    for mapped in Mapped::find(pid, file)? {
        mapped.pages(|page, _| {
            blocks.insert(page / AROUND);
        })?;
    }
    Ok(blocks)
}

/// The pages of a file that it has copies of its own of.
fn copied(pid: u32, file: &Path) -> io::Result<BTreeSet<u64>> {
    let mut pages = BTreeSet::new();
    for mapped in Mapped::find(pid, file)? {
        mapped.pages(|page, own| {
            if own {
                pages.insert(page);
            }
        })?;
    }
    Ok(pages)
}
