//! Opens the gate: everything a clone needs to be its own, step by step. What fails keeps it closed for ever.

use std::io;
use std::sync::Arc;

use rekindle_protocol::limits::{
    DEFAULT_KEPT_OUTPUT_BYTES, DEFAULT_UPLOAD_BYTES, MAX_ENTROPY_BYTES, MIN_ENTROPY_BYTES,
};
use rekindle_protocol::wire::{self, ErrorCode};

use crate::agent::Agent;
use crate::exec;
use crate::failure::Failure;
use crate::restore::gate::{Sandbox, State};
use crate::restore::{clock, entropy, identity, privileges, reseed, scratch};

/// Applies everything a clone needs to be its own, then opens the gate.
///
/// # Errors
/// When the request makes no sense (the gate stays as it is) or a step fails (the guest is spoilt).
pub async fn restore(agent: &Arc<Agent>, request: wire::RestoreRequest) -> Result<(), Failure> {
    if request.settle {
        agent.executions.tidied().await;
        agent.interpreters.settled().await;
    }
    open_gate(agent, request)
}

fn open_gate(agent: &Arc<Agent>, request: wire::RestoreRequest) -> Result<(), Failure> {
    match &*agent.gate.lock() {
        State::Closed => {}
        State::Open(_) if request.renew => check_renewal(agent, &request)?,
        State::Open(_) => return Err(Failure::invalid("the restore gate is open already")),
        State::Failed => {
            return Err(Failure::new(ErrorCode::GateFailed, "an earlier restore failed in this guest"));
        }
    }
    check(&request)?;
    // In place: a few system calls while nothing else may run are not worth a thread on the way to a start.
    let (state, result) = match apply(agent, request) {
        Ok(sandbox) => {
            agent.set_untouched();
            (State::Open(Arc::new(sandbox)), Ok(()))
        }
        Err(failure) => (State::Failed, Err(failure)),
    };
    *agent.gate.lock() = state;
    result
}

/// Refuses what makes no sense before anything has been touched.
fn check(request: &wire::RestoreRequest) -> Result<(), Failure> {
    if !(MIN_ENTROPY_BYTES..=MAX_ENTROPY_BYTES).contains(&request.entropy.len()) {
        let message = format!("a restore brings {MIN_ENTROPY_BYTES} to {MAX_ENTROPY_BYTES} bytes of entropy");
        return Err(Failure::invalid(message));
    }
    identity::check(&request.hostname, &request.machine_id)?;
    exec::check_environment(&request.env)
}

/// Refuses to give a guest to somebody else while it works for the one before, or with another disk.
fn check_renewal(agent: &Agent, request: &wire::RestoreRequest) -> Result<(), Failure> {
    if request.scratch.is_some() {
        return Err(Failure::invalid("the scratch disk is in place already: a renewal brings none"));
    }
    match agent.busy() {
        0 => Ok(()),
        busy => Err(Failure::new(ErrorCode::Busy, format!("{busy} operations are under way"))),
    }
}

fn apply(agent: &Agent, request: wire::RestoreRequest) -> Result<Sandbox, Failure> {
    fn step<T>(name: &str, result: io::Result<T>) -> Result<T, Failure> {
        result.map_err(|error| Failure::new(ErrorCode::GateFailed, format!("{name}: {error}")))
    }
    // Nothing has run since a quiesce, or a gate behind which nothing has begun.
    let unchanged = !request.renew || agent.is_untouched();
    let mut files = step("preparation", agent.tuning.gate_files(agent, unchanged))?;
    // Randomness first: nothing after it may draw from what all clones share.
    step("entropy", entropy::feed(&files.random, &request.entropy))?;
    step("clock", clock::set(request.unix_nanos))?;
    if std::mem::take(&mut files.interpreters) {
        // After the clock: generators that reseed by time see that theirs has come.
        step("interpreters", reseed::reseed())?;
    }
    let kept = request.scratch.as_ref().is_some_and(|disk| disk.kept);
    if kept && request.hostname.is_empty() {
        step("hostname", identity::take_up_hostname())?;
    }
    step("hostname", files.identity.set_hostname(&request.hostname))?;
    step("machine-id", files.identity.set_machine_id(&request.machine_id))?;
    if let Some(disk) = &request.scratch {
        let account = agent
            .default_account()
            .map_err(|error| Failure::new(ErrorCode::GateFailed, format!("scratch: {error}")))?;
        step("scratch", scratch::mount(disk, &account, &agent.config.state))?;
        if disk.kept {
            // What the machine before has spilled keeps its names.
            agent.executions.begin_after(step("scratch", agent.spilled.adopt())?);
        }
    }
    if agent.init {
        step("privileges", privileges::allow_root(request.root))?;
    }
    let limits = request.limits.unwrap_or_default();
    step("limits", files.limits.set(&limits))?;
    agent.tuning.gate_opened(files);
    let or_default = |value, default| if value == 0 { default } else { value };
    Ok(Sandbox {
        env: request.env,
        upload_bytes: or_default(limits.upload_bytes, DEFAULT_UPLOAD_BYTES),
        spilled_output_bytes: or_default(limits.spilled_output_bytes, DEFAULT_KEPT_OUTPUT_BYTES),
    })
}
