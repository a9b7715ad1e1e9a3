//! Makes a parked process the process of an execution.

use std::io;
use std::os::fd::OwnedFd;

use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use tokio::sync::oneshot;

use crate::agent::Agent;
use crate::cgroup::ExecutionGroup;
use crate::exec::child::Child;
use crate::exec::spec::{Input, Spec};
use crate::exec::stdio::{self, AgentEnds};
use crate::reaper::Exit;
use crate::warm::fits::fits;
use crate::warm::parked::{Parked, Prepared};
use crate::warm::pool::Kind;
use crate::warm::request::{Order, encode, source};

/// A process that has been claimed.
pub struct Claimed {
    /// The process.
    pub child: Child,
    /// Tells of its end.
    pub exit: oneshot::Receiver<Exit>,
    /// The agent's ends of its streams.
    pub ends: AgentEnds,
    /// Its own ends, as far as it does not have them already. To be kept until its program runs.
    pub own_ends: [Option<OwnedFd>; 3],
}

/// The process, if a warm interpreter fits the execution and one is there. `None` means: start one.
/// `untouched` says that nothing has happened in this guest yet.
///
/// # Errors
/// When there are no descriptors or random bytes left.
pub async fn claim(
    agent: &Agent,
    spec: &Spec,
    group: Option<&ExecutionGroup>,
    untouched: bool,
) -> io::Result<Option<Claimed>> {
    let Some(mut parked) = take(agent, spec).await else { return Ok(None) };
    let as_prepared = parked.prepared.as_ref().is_some_and(|prepared| prepared.footing.is_of(spec));
    let (ends, own_ends) = streams(&mut parked, spec)?;
    let order =
        if untouched && as_prepared && own_ends.iter().all(Option::is_none) { Order::Go } else { Order::Run };
    let request = encode(order, spec, &own_ends)?;
    let moved = group.is_none_or(|group| group.take_in(parked.pid).is_ok());
    if !moved || parked.line.tell(&request).await.is_err() {
        // It has ended, or will now.
        let _ = kill(Pid::from_raw(parked.pid), Signal::SIGKILL);
        return Ok(None);
    }
    let (child, exit) = parked.into_child();
    Ok(Some(Claimed { child, exit, ends, own_ends }))
}

/// What it was prepared with, and what the execution wants beside it.
fn streams(parked: &mut Parked, spec: &Spec) -> io::Result<(AgentEnds, [Option<OwnedFd>; 3])> {
    let Some(Prepared { mut ends, .. }) = parked.prepared.take().filter(|_| spec.terminal.is_none()) else {
        let (ends, own_ends) = stdio::open(spec)?;
        return Ok((ends, own_ends.map(Some)));
    };
    let mut own_ends = [None, None, None];
    if spec.input != Input::Nothing {
        let (input, own_end) = stdio::input()?;
        ends.input = Some(input);
        own_ends[0] = Some(own_end);
    }
    Ok((ends, own_ends))
}

/// One that waits, if it may be used.
async fn take(agent: &Agent, spec: &Spec) -> Option<Parked> {
    let kind = agent.warm.kind(fits(agent, spec)?, source(spec))?;
    let waiting = agent.warm.take(kind);
    let Kind::Python(number) = kind else { return waiting };
    if waiting.is_some() {
        return waiting;
    }
    // A copy that is being made is there sooner than another one, and that sooner than an interpreter.
    drop(agent.warm.copying.lock().await);
    match agent.warm.take(kind) {
        Some(parked) => Some(parked),
        None => agent.warm.forker(number)?.park(agent).await.ok(),
    }
}
