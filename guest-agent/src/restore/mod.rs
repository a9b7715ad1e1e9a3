//! The restore gate: nothing of a caller's runs until a clone has been made its own, and it fails closed.
//!
//! ```text
//!   closed ──restore ok──► open ──quiesce──► closed (and into a snapshot)
//!                           ▲└──renewed: the same once more, while nothing is under way
//!      └──restore failed──► failed: this guest is never used
//! ```

mod ahead;
mod clock;
mod entropy;
mod gather;
mod identity;
pub mod interpreters;
pub mod poise;
mod scratch;

use std::io;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use rekindle_protocol::limits::{
    DEFAULT_KEPT_OUTPUT_BYTES, DEFAULT_UPLOAD_BYTES, MAX_ENTROPY_BYTES, MIN_ENTROPY_BYTES,
};
use rekindle_protocol::wire::{self, ErrorCode};

use crate::agent::Agent;
use crate::exec;
use crate::failure::Failure;
use crate::restore::ahead::Ahead;

/// How long a quiet guest takes to be done with the aftermath of its last operations: the kernel's own
/// housekeeping has come round.
const SETTLING: Duration = Duration::from_secs(2);

/// What the supervisor said about the sandbox this guest is.
#[derive(Debug, Default)]
pub struct Sandbox {
    /// Variables every execution sees, already checked.
    pub env: Vec<wire::EnvVar>,
    /// Largest file that may be uploaded.
    pub upload_bytes: u64,
    /// Full output kept for each stream of an execution.
    pub kept_output_bytes: u64,
}

/// Whether callers may use this guest.
#[derive(Debug, Default)]
pub struct Gate {
    state: Mutex<State>,
    /// What was found when the guest was made quiet.
    ahead: Mutex<Option<Ahead>>,
}

#[derive(Debug, Default)]
enum State {
    #[default]
    Closed,
    Open(Arc<Sandbox>),
    Failed,
}

impl Gate {
    /// The sandbox behind the open gate.
    ///
    /// # Errors
    /// When the gate is not open.
    pub fn pass(&self) -> Result<Arc<Sandbox>, Failure> {
        match &*self.lock() {
            State::Open(sandbox) => Ok(sandbox.clone()),
            State::Closed => Err(Failure::new(
                ErrorCode::GateClosed,
                "the restore gate is closed: this guest has not been made a sandbox yet",
            )),
            State::Failed => Err(Failure::new(
                ErrorCode::GateFailed,
                "the restore gate could not be opened: this guest must not be used",
            )),
        }
    }

    /// Whether it is open.
    pub fn is_open(&self) -> bool {
        matches!(*self.lock(), State::Open(_))
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn ahead(&self) -> MutexGuard<'_, Option<Ahead>> {
        self.ahead.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Applies everything a clone needs to be its own, then opens the gate.
///
/// # Errors
/// When the request makes no sense (the gate stays as it is) or a step fails (the guest is spoilt).
pub async fn restore(agent: &Arc<Agent>, request: wire::RestoreRequest) -> Result<(), Failure> {
    if request.settle {
        agent.executions.tidied().await;
        agent.warm.settled().await;
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

/// Closes the gate and leaves the guest quiet.
///
/// # Errors
/// When something is still under way.
pub async fn quiesce(agent: &Arc<Agent>, request: &wire::QuiesceRequest) -> Result<(), Failure> {
    let busy = agent.busy();
    if busy > 0 {
        let message = format!("{busy} operations are under way");
        return Err(Failure::new(ErrorCode::Busy, message));
    }
    *agent.gate.lock() = State::Closed;
    agent.executions.tidied().await;
    agent.warm.settled().await;
    let (drop_caches, own) = (request.drop_caches, agent.clone());
    let quiet = tokio::task::spawn_blocking(move || {
        interpreters::forget_dead()?;
        nix::unistd::sync();
        if drop_caches {
            std::fs::write("/proc/sys/vm/drop_caches", "3")?;
        }
        if let Err(error) = gather::program() {
            // Clones are slower, and nothing else.
            eprintln!("rekindle-agent: its program could not be gathered: {error}");
        }
        *own.gate.ahead() = Some(Ahead::look(&own)?);
        io::Result::Ok(())
    });
    match quiet.await {
        Ok(Ok(())) => {
            // What the guest still had to do for its last operations is done before it is frozen.
            tokio::time::sleep(SETTLING).await;
            poise::take();
            Ok(())
        }
        Ok(Err(error)) => Err(Failure::internal("make the guest quiet", &error)),
        Err(error) => Err(Failure::new(ErrorCode::Internal, error.to_string())),
    }
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
    let found = agent.gate.ahead().take().filter(|_| !request.renew || agent.is_untouched());
    let mut ahead = match found {
        Some(found) => found,
        None => step("preparation", Ahead::look(agent))?,
    };
    // Randomness first: nothing after it may draw from what all clones share.
    step("entropy", entropy::feed(&ahead.random, &request.entropy))?;
    step("clock", clock::set(request.unix_nanos))?;
    if std::mem::take(&mut ahead.interpreters) {
        // After the clock: generators that reseed by time see that theirs has come.
        step("interpreters", interpreters::reseed())?;
    }
    step("hostname", ahead.identity.set_hostname(&request.hostname))?;
    step("machine-id", ahead.identity.set_machine_id(&request.machine_id))?;
    if let Some(disk) = &request.scratch {
        let account = agent
            .default_account()
            .map_err(|error| Failure::new(ErrorCode::GateFailed, format!("scratch: {error}")))?;
        step("scratch", scratch::mount(disk, &account, &agent.config.state))?;
    }
    let limits = request.limits.unwrap_or_default();
    step("limits", ahead.limits.set(&limits))?;
    *agent.gate.ahead() = Some(ahead);
    step("poise", poise::release())?;
    let or_default = |value, default| if value == 0 { default } else { value };
    Ok(Sandbox {
        env: request.env,
        upload_bytes: or_default(limits.upload_bytes, DEFAULT_UPLOAD_BYTES),
        kept_output_bytes: or_default(limits.kept_output_bytes, DEFAULT_KEPT_OUTPUT_BYTES),
    })
}
