//! Stops a sandbox's processors and clocks, and lets them run again.
//!
//! A caller only asks: the sandbox's keeper makes the change, one at a time and to its end, whether or not the
//! caller still waits. A machine never runs while its sandbox is recorded as paused, nor the other way round:
//! one whose processors are in doubt is brought back to where it was, or ended.

use std::sync::{Arc, Weak};
use std::time::Duration;

use tokio::sync::oneshot;
use tokio::time::{Instant, timeout};

use super::caller::{Caller, Scope};
use super::change::Change;
use super::create::AtTimeout;
use super::error::ServiceError;
use super::events::SandboxEventKind;
use super::keeper::Holdings;
use super::live::PROMPT;
use super::registry::Service;
use super::sandbox::{EndReason, Sandbox, SandboxState, SandboxView};
use crate::telemetry::Origin;

/// How long a resumed guest may take to set its clock.
const SET_CLOCK: Duration = Duration::from_secs(10);

/// How long callers have to read what ended programs have left them, when a pause is asked for.
const UNREAD: Duration = Duration::from_secs(2);

/// How long a pause waits for calls under way: the end of one whose caller has just given it up may not have been noticed.
const GIVEN_UP: Duration = Duration::from_millis(500);

/// The least time a sandbox has once it is resumed from the pause at its timeout, so that whoever resumes it can give it more.
const LEAST_AGAIN: Duration = Duration::from_secs(60);

/// A change of a machine's state.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Transition {
    Pause(Keep),
    Resume,
}

/// What a pause keeps.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Keep {
    /// Everything: programs go on where they stood still.
    Memory,
    /// The disk alone: memory is given back, and resuming boots another machine.
    Disk,
}

/// A transition that somebody asked a keeper for.
#[derive(Debug)]
pub(super) struct TransitionRequest {
    pub transition: Transition,
    /// What asking for it is part of.
    pub origin: Origin,
    /// Whoever asked may have gone.
    pub reply: oneshot::Sender<Result<SandboxView, ServiceError>>,
}

impl Service {
    /// Pauses a sandbox in which no call is under way; detached programs stand still with it. Pausing a paused one is
    /// fine.
    ///
    /// # Errors
    /// See [`ServiceError`].
    pub async fn pause(&self, caller: &Caller, sandbox: &str) -> Result<SandboxView, ServiceError> {
        caller.require(Scope::Create)?;
        self.alive(caller, sandbox)?.ask(Transition::Pause(Keep::Memory), &caller.origin).await
    }

    /// The same, but its disk alone is kept: its programs end, and its memory is the host's again. One that is paused
    /// with its memory gives it back.
    ///
    /// # Errors
    /// See [`ServiceError`]; where the guest refuses, it goes on without its programs.
    pub async fn pause_without_memory(
        &self,
        caller: &Caller,
        sandbox: &str,
    ) -> Result<SandboxView, ServiceError> {
        caller.require(Scope::Create)?;
        self.alive(caller, sandbox)?.ask(Transition::Pause(Keep::Disk), &caller.origin).await
    }

    /// Lets a paused sandbox run again. Resuming a running one is fine. One whose memory was given back is booted, for
    /// which there may be no room now.
    ///
    /// # Errors
    /// See [`ServiceError`].
    pub async fn resume(&self, caller: &Caller, sandbox: &str) -> Result<SandboxView, ServiceError> {
        caller.require(Scope::Create)?;
        self.alive(caller, sandbox)?.ask(Transition::Resume, &caller.origin).await
    }

    /// A sandbox that somebody wants to use: one that is paused and was made to be resumed by its use is resumed.
    ///
    /// # Errors
    /// See [`ServiceError`].
    pub async fn wake(&self, caller: &Caller, sandbox: &str) -> Result<SandboxView, ServiceError> {
        let sandbox = self.alive(caller, sandbox)?;
        wake(&sandbox, &caller.origin).await?;
        Ok(sandbox.view())
    }

    /// Makes a transition. Only the sandbox's keeper calls this.
    pub(super) async fn make_transition(
        &self,
        sandbox: &Sandbox,
        holdings: &mut Holdings,
        request: TransitionRequest,
    ) {
        let TransitionRequest { transition, origin, reply } = request;
        let done = match transition {
            Transition::Pause(keep) => self.make_pause(sandbox, holdings, keep, &origin).await,
            Transition::Resume => {
                let change = Change::begin(self, sandbox, &origin, "resume");
                change.done(match holdings.stopped {
                    None => self.resume_machine(sandbox).await,
                    Some(_) => self.resume_from_disk(sandbox, holdings).await,
                })
            }
        };
        let _ = reply.send(done);
    }

    async fn make_pause(
        &self,
        sandbox: &Sandbox,
        holdings: &mut Holdings,
        keep: Keep,
        origin: &Origin,
    ) -> Result<SandboxView, ServiceError> {
        match keep {
            Keep::Memory => {
                let change = Change::begin(self, sandbox, origin, "pause");
                change.done(self.pause_machine(sandbox).await)
            }
            Keep::Disk => {
                let change = Change::begin(self, sandbox, origin, "pause_without_memory");
                change.done(self.pause_to_disk(sandbox, holdings).await)
            }
        }
    }

    /// Pauses a sandbox whose time to live is over, where that is what it was made for; whether it goes on. Only its
    /// keeper calls this.
    ///
    /// Nobody's call is cut off: while one is under way, the pause waits. Resumed, it has the time again that it had.
    pub(super) async fn paused_at_timeout(&self, sandbox: &Sandbox, holdings: &mut Holdings) -> bool {
        let at_timeout = sandbox.lock().at_timeout;
        let keep = match at_timeout {
            AtTimeout::End => return false,
            AtTimeout::Pause { .. } => Keep::Memory,
            AtTimeout::PauseWithoutMemory => Keep::Disk,
        };
        // It is nobody's call.
        let done = self.make_pause(sandbox, holdings, keep, &Origin::default()).await;
        let now = Instant::now();
        let mut inner = sandbox.lock();
        // The longest life counts here too.
        let most = self.config().max_ttl.saturating_sub(inner.lifetime.ran(now));
        match done {
            Ok(_) if most.is_zero() => false,
            Ok(_) => {
                let again = inner.lifetime.granted().max(LEAST_AGAIN).min(most);
                inner.lifetime.set_ttl(now, again);
                true
            }
            Err(ServiceError::UnderWay { .. }) if !most.is_zero() => {
                inner.lifetime.postpone(now, most);
                true
            }
            Err(error) => {
                tracing::warn!(%error, "a sandbox could not be paused at its timeout, and ends");
                false
            }
        }
    }

    async fn pause_machine(&self, sandbox: &Sandbox) -> Result<SandboxView, ServiceError> {
        if !set_paused(sandbox).await? {
            return Ok(sandbox.view());
        }
        sandbox.set_frozen(Some(Instant::now()));
        // No server waits for programs that stand still: they find their connections reset, and dial again.
        sandbox.gate.pause();
        if let Err(error) = sandbox.vm().pause().await {
            // It may have stopped all the same.
            sandbox.gate.unpause();
            match sandbox.vm().resume().await {
                Ok(()) => set_running(sandbox),
                Err(_) => {
                    sandbox.want_end(EndReason::VmLost, "its machine could be neither paused nor resumed");
                }
            }
            return Err(ServiceError::Machine(error));
        }
        self.events().tell(SandboxEventKind::Paused, sandbox.view());
        Ok(sandbox.view())
    }

    async fn resume_machine(&self, sandbox: &Sandbox) -> Result<SandboxView, ServiceError> {
        {
            let inner = sandbox.lock();
            match inner.state {
                SandboxState::Running => {
                    drop(inner);
                    return Ok(sandbox.view());
                }
                SandboxState::Paused => {}
                SandboxState::Ending | SandboxState::Ended => return Err(sandbox.over(&inner, false)),
            }
        }
        // Before a program can dial.
        sandbox.gate.unpause();
        if let Err(error) = let_run(sandbox).await {
            sandbox.gate.pause();
            return Err(error);
        }
        // Before a call gets in: the guest's clock has stood still with its processors.
        if let Err(error) = sandbox.agent().set_clock(SET_CLOCK).await {
            if error.is_fatal() {
                sandbox.want_end(EndReason::AgentLost, format!("it did not come back from a pause: {error}"));
                return Err(sandbox.over(&sandbox.lock(), true));
            }
            tracing::warn!(%error, "the clock of a resumed sandbox stays behind");
        }
        set_running(sandbox);
        self.events().tell(SandboxEventKind::Resumed, sandbox.view());
        Ok(sandbox.view())
    }
}

/// Lets the processors of a paused machine run. One that does not say so may run all the same, and is paused again.
pub(super) async fn let_run(sandbox: &Sandbox) -> Result<(), ServiceError> {
    let vm = sandbox.vm();
    let Err(error) = vm.resume().await else { return Ok(()) };
    if vm.pause().await.is_err() {
        sandbox.want_end(EndReason::VmLost, "its machine could be neither resumed nor paused");
    }
    Err(ServiceError::Machine(error))
}

/// Lets no call in any more and stops the clocks; whether it was not so before.
async fn set_paused(sandbox: &Sandbox) -> Result<bool, ServiceError> {
    let was_running = close_to_calls(sandbox).await?;
    if was_running {
        sandbox.lock().lifetime.pause(Instant::now());
    }
    Ok(was_running)
}

/// Lets no call in any more; whether one could get in before. The clocks go on: the machine runs.
pub(super) async fn close_to_calls(sandbox: &Sandbox) -> Result<bool, ServiceError> {
    end_calls(sandbox).await;
    if sandbox.wanted().is_some() {
        return Err(sandbox.over(&sandbox.lock(), true));
    }
    let mut inner = sandbox.lock();
    match inner.state {
        SandboxState::Paused => return Ok(false),
        // A program that stands still would look lost to who waits for it.
        SandboxState::Running if inner.lifetime.under_way() > 0 => {
            return Err(ServiceError::UnderWay { calls: inner.lifetime.under_way() });
        }
        SandboxState::Running => {}
        SandboxState::Ending | SandboxState::Ended => return Err(sandbox.over(&inner, false)),
    }
    inner.state = SandboxState::Paused;
    Ok(true)
}

/// Resumes a sandbox that is paused and was made to be resumed by its use; any other stays as it is.
pub(super) async fn wake(sandbox: &Sandbox, origin: &Origin) -> Result<(), ServiceError> {
    let wanted = {
        let inner = sandbox.lock();
        let auto = inner.at_timeout == AtTimeout::Pause { auto_resume: true };
        // A boot is nothing that any request may cause.
        auto && inner.state == SandboxState::Paused && !inner.without_memory
    };
    if wanted {
        sandbox.ask(Transition::Resume, origin).await?;
    }
    Ok(())
}

/// Gives calls under way the time to end that are about to.
async fn end_calls(sandbox: &Sandbox) {
    end_unread(sandbox).await;
    // A call that goes on after that is in the way of the pause.
    let _ = timeout(GIVEN_UP, calls_ended(sandbox)).await;
}

/// Completes when no call is under way any more, or somebody wants the sandbox to end. One look at both: a wake-up
/// is for one who waits.
async fn calls_ended(sandbox: &Sandbox) {
    while sandbox.lock().lifetime.under_way() > 0 && sandbox.wanted().is_none() {
        sandbox.woken().await;
    }
}

/// Ends live executions whose programs have ended and whose callers do not read the rest, where these alone are under
/// way: a caller that does not read must not keep others from pausing.
async fn end_unread(sandbox: &Sandbox) {
    let (calls, live) = {
        let inner = sandbox.lock();
        let live = inner.live.iter().filter_map(Weak::upgrade).filter(|call| call.is_under_way());
        (inner.lifetime.under_way(), live.collect::<Vec<_>>())
    };
    if calls == 0 || live.len() < calls {
        return;
    }
    // All together: the guest, which may be hostile, has no time for each.
    let asked = async {
        for call in &live {
            if call.runs(sandbox).await {
                return true;
            }
        }
        false
    };
    let runs = tokio::select! {
        runs = timeout(PROMPT, asked) => runs.unwrap_or(true),
        () = end_wanted(sandbox) => return,
    };
    if runs {
        return;
    }
    // Not kept alive: who goes away meanwhile has ended it.
    let live: Vec<_> = live.iter().map(Arc::downgrade).collect();
    if timeout(UNREAD, calls_ended(sandbox)).await.is_err() {
        live.iter().filter_map(Weak::upgrade).for_each(|call| call.cut());
    }
}

/// Completes when somebody wants the sandbox to end. The keeper looks again for itself.
pub(super) async fn end_wanted(sandbox: &Sandbox) {
    while sandbox.wanted().is_none() {
        sandbox.woken().await;
    }
}

/// Lets calls in again, and the clocks run.
pub(super) fn set_running(sandbox: &Sandbox) {
    let mut inner = sandbox.lock();
    if inner.state == SandboxState::Paused {
        inner.state = SandboxState::Running;
        inner.without_memory = false;
        inner.lifetime.resume(Instant::now());
        sandbox.set_frozen(None);
    }
}
