//! Starts the interpreters a template's recipe asks for, before the snapshot.

use std::ffi::CString;
use std::fs::File;
use std::io;
use std::os::fd::{AsFd, BorrowedFd};
use std::sync::Arc;

use rekindle_protocol::limits::{MAX_WARM_MODULES, MAX_WARM_NODES};
use rekindle_protocol::wire::{self, ErrorCode};
use tokio::sync::oneshot;

use crate::agent::Agent;
use crate::exec::child::{self, Child, Footing};
use crate::exec::spec::Spec;
use crate::failure::Failure;
use crate::reaper::Exit;
use crate::warm::refill::fill;

/// Starts them and returns when all are parked.
///
/// # Errors
/// When the request makes no sense, or one of them does not start.
pub async fn start(agent: &Arc<Agent>, request: wire::WarmRequest) -> Result<(), Failure> {
    let _busy = agent.begin();
    let pythons = request.python.map_or_else(Vec::new, pythons);
    check(pythons.last().map_or(&[], Vec::as_slice), request.node)?;
    agent.warm.want(pythons, request.node as usize);
    fill(agent).await.map_err(|error| {
        Failure::new(ErrorCode::SpawnFailed, format!("an interpreter cannot be kept warm: {error}"))
    })
}

/// What each Python imports; the last one everything.
fn pythons(wire::WarmPython { modules, packages }: wire::WarmPython) -> Vec<Vec<String>> {
    let all = [modules.clone(), packages].concat();
    if all.len() == modules.len() { vec![all] } else { vec![modules, all] }
}

fn check(modules: &[String], nodes: u32) -> Result<(), Failure> {
    let word = |part: &str| {
        !part.is_empty()
            && !part.starts_with(|c: char| c.is_ascii_digit())
            && part.chars().all(|c| c.is_ascii_alphanumeric() || c == '_')
    };
    if modules.len() > MAX_WARM_MODULES || nodes > MAX_WARM_NODES {
        return Err(Failure::invalid("more is to be kept warm than is allowed"));
    }
    match modules.iter().find(|name| !name.split('.').all(word)) {
        Some(name) => Err(Failure::invalid(format!("{name:?} is not the name of a module"))),
        None => Ok(()),
    }
}

/// Starts a program of the agent's own, as root, in the group of those that wait. Its output goes nowhere.
///
/// # Errors
/// When it cannot be started.
pub async fn spawn(
    agent: &Agent,
    argv: Vec<CString>,
    env: &[wire::EnvVar],
    control: &[BorrowedFd<'_>],
) -> io::Result<(Child, oneshot::Receiver<Exit>)> {
    let null = File::options().read(true).write(true).open("/dev/null")?;
    let spec = Spec::own(argv, env);
    let footing = Footing {
        stdio: [null.as_fd(); 3],
        terminal: false,
        cgroup: agent.cgroups.warm(),
        processes: 0,
        control,
    };
    let started = agent.reaper.adopt(|| child::start(&spec, &footing).map(|child| (child.pid, child)))?;
    started.0.running(&spec).await.map_err(|failure| io::Error::other(failure.to_string()))?;
    Ok(started)
}
