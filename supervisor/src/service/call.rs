//! One call in a sandbox: it keeps the sandbox from being idle, ends with the sandbox, and is remembered in its
//! timeline, also when its caller goes away in the middle.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use tokio::time::Instant;

use super::diagnosis::{Diagnosis, diagnose};
use super::error::ServiceError;
use super::id::ExecutionId;
use super::lifetime::Lifetime;
use super::registry::Service;
use super::sandbox::{Inner, Sandbox};
use super::timeline::{TimelineEntry, TimelineOutcome};
use super::turns::TurnsLeft;
use crate::agent::{AgentError, Finished};
use crate::network::NetworkSummary;
use crate::telemetry::Origin;

/// A call under way. Dropped without [`Call::done`] it was cancelled.
#[derive(Debug)]
pub(super) struct Call {
    service: Service,
    sandbox: Arc<Sandbox>,
    /// Part of its caller's trace, where it has one.
    span: tracing::Span,
    started: Instant,
    entry: Option<TimelineEntry>,
    fed: Arc<AtomicU64>,
    /// It has left a program behind.
    detached: bool,
    /// That program keeps the sandbox from being idle.
    counts: bool,
    /// Its timeline tells of it.
    remembered: bool,
    /// The turn that it has taken.
    turn: Option<TurnsLeft>,
}

impl Call {
    /// Begins a call in a sandbox that takes one.
    pub(super) fn begin(
        service: &Service,
        sandbox: Arc<Sandbox>,
        origin: &Origin,
        call: &'static str,
        about: &str,
    ) -> Result<Self, ServiceError> {
        Self::enter(service, sandbox, origin, call, about, |_| Ok(None))
    }

    /// Begins a call that takes a turn, where they are bounded: an execution that a caller has asked for.
    pub(super) fn begin_turn(
        service: &Service,
        sandbox: Arc<Sandbox>,
        origin: &Origin,
        call: &'static str,
        about: &str,
    ) -> Result<Self, ServiceError> {
        let path = sandbox.facts.result_path.clone();
        Self::enter(service, sandbox, origin, call, about, |inner| {
            let Some(turns) = &mut inner.turns else { return Ok(None) };
            turns.take().map(|left| Some(TurnsLeft::new(left, path.as_ref())))
        })
    }

    fn enter(
        service: &Service,
        sandbox: Arc<Sandbox>,
        origin: &Origin,
        call: &'static str,
        about: &str,
        take: impl FnOnce(&mut Inner) -> Result<Option<TurnsLeft>, ServiceError>,
    ) -> Result<Self, ServiceError> {
        let turn = {
            let mut inner = sandbox.lock();
            sandbox.check_running(&inner)?;
            let turn = take(&mut inner)?;
            inner.lifetime.begin();
            turn
        };
        service.calls().send_modify(|calls| *calls += 1);
        sandbox.wake();
        let entry = TimelineEntry { origin: origin.clone(), ..TimelineEntry::of(call, about) };
        let span = entry.span(&sandbox.span);
        Ok(Self {
            service: service.clone(),
            sandbox,
            span,
            started: Instant::now(),
            entry: Some(entry),
            fed: Arc::default(),
            detached: false,
            counts: true,
            remembered: true,
            turn,
        })
    }

    /// The turn that it has taken.
    pub(super) fn turn(&self) -> Option<&TurnsLeft> {
        self.turn.as_ref()
    }

    /// Ends a call whose program did not start: it was no turn.
    pub(super) fn not_started<T>(mut self, result: &Result<T, ServiceError>) {
        if self.turn.take().is_some()
            && let Some(turns) = &mut self.sandbox.lock().turns
        {
            turns.give_back();
        }
        self.done(result);
    }

    /// Leaves it out of the timeline: one of many that say little.
    pub(super) fn unremembered(mut self) -> Self {
        self.remembered = false;
        self
    }

    /// Ends the call and leaves its program running: it keeps the sandbox from being idle, but not from being paused,
    /// and a shutdown does not wait for it. It is remembered when it ends. A program that does not count keeps the
    /// sandbox from nothing.
    pub(super) fn detach(&mut self, lifetime: &mut Lifetime, counts: bool) {
        if !std::mem::replace(&mut self.detached, true) {
            self.counts = counts;
            if counts {
                lifetime.detach();
            } else {
                lifetime.finish(Instant::now());
            }
            self.service.calls().send_modify(|calls| *calls = calls.saturating_sub(1));
        }
    }

    /// The sandbox it is in.
    pub(super) fn sandbox(&self) -> &Arc<Sandbox> {
        &self.sandbox
    }

    /// How long it has taken so far.
    pub(super) fn elapsed(&self) -> Duration {
        self.started.elapsed()
    }

    /// Counts bytes that go into the sandbox while the call goes on, besides those that are noted.
    pub(super) fn fed(&self) -> Arc<AtomicU64> {
        Arc::clone(&self.fed)
    }

    /// Names the execution it is.
    pub(super) fn execution(&mut self, id: ExecutionId) {
        if let Some(entry) = &mut self.entry {
            entry.execution = Some(id);
            let journal = self.sandbox.gate.journal();
            journal.begin(id.0);
            journal.set_origin(id.0, entry.origin.clone());
        }
    }

    /// What its execution has done on the network so far.
    pub(super) fn network(&self) -> NetworkSummary {
        let id = self.entry.as_ref().and_then(|entry| entry.execution);
        id.map(|id| self.sandbox.gate.journal().so_far(id.0)).unwrap_or_default()
    }

    /// What went wrong in its execution, which is counted. A program of the server's own is nobody's business.
    pub(super) fn diagnose(&self, finished: &Finished, network: &NetworkSummary) -> Option<Diagnosis> {
        let found = diagnose(finished, network, &self.sandbox.facts.packages).filter(|_| self.counts)?;
        self.service.metrics().diagnosed(found.category.word());
        Some(found)
    }

    /// What went wrong in code that is part of it, which is counted once: `counted` remembers that.
    pub(super) fn diagnosed(
        &self,
        counted: &mut bool,
        find: impl FnOnce(&[String]) -> Option<Diagnosis>,
    ) -> Option<Diagnosis> {
        let found = find(&self.sandbox.facts.packages)?;
        if !std::mem::replace(counted, true) {
            self.service.metrics().diagnosed(found.category.word());
        }
        Some(found)
    }

    /// Changes what will be remembered.
    pub(super) fn note(&mut self, change: impl FnOnce(&mut TimelineEntry)) {
        if let Some(entry) = &mut self.entry {
            change(entry);
        }
    }

    /// Waits for something the agent does, or for the end of the sandbox.
    pub(super) async fn wait<T>(
        &self,
        doing: impl Future<Output = Result<T, AgentError>>,
    ) -> Result<T, ServiceError> {
        let done = tokio::select! {
            done = doing => done,
            end = self.sandbox.ended() => return Err(ServiceError::Ended { end, during: true }),
        };
        match done {
            Ok(done) => Ok(done),
            Err(error) => Err(self.failed(error).await),
        }
    }

    /// What a failure means.
    pub(super) async fn failed(&self, error: AgentError) -> ServiceError {
        self.sandbox.failed(error).await
    }

    /// Ends the call and remembers how.
    pub(super) fn done<T>(mut self, result: &Result<T, ServiceError>) {
        self.note(|entry| match result {
            // It has noted its own.
            Ok(_) if matches!(entry.outcome, TimelineOutcome::Execution(_)) => {}
            Ok(_) => entry.outcome = TimelineOutcome::Done,
            Err(error) => entry.outcome = TimelineOutcome::of(error),
        });
    }
}

impl Drop for Call {
    fn drop(&mut self) {
        let now = Instant::now();
        if let Some(mut entry) = self.entry.take() {
            entry.took = now - self.started;
            if let Some(id) = entry.execution {
                let network = self.sandbox.gate.journal().end(id.0);
                entry.note_network(&network);
            }
            entry.bytes_in = entry.bytes_in.saturating_add(self.fed.load(Ordering::Relaxed));
            self.service.observe(&entry);
            entry.log(&self.span);
            let mut inner = self.sandbox.lock();
            inner.usage.bytes_in = inner.usage.bytes_in.saturating_add(entry.bytes_in);
            inner.usage.bytes_out = inner.usage.bytes_out.saturating_add(entry.bytes_out);
            if self.remembered {
                inner.timeline.push(entry, self.service.config().timeline_entries);
            }
            match (self.detached, self.counts) {
                (true, true) => inner.lifetime.finish_detached(now),
                (true, false) => {}
                (false, _) => inner.lifetime.finish(now),
            }
        }
        if !self.detached {
            self.service.calls().send_modify(|calls| *calls = calls.saturating_sub(1));
        }
        self.sandbox.wake();
    }
}
