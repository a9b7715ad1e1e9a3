//! One call that makes, changes or ends a sandbox. It is not under way in it and keeps no clock from running; it is
//! remembered in its timeline all the same, as part of its caller's trace.

use tokio::time::Instant;

use super::error::ServiceError;
use super::registry::Service;
use super::sandbox::Sandbox;
use super::timeline::{TimelineEntry, TimelineOutcome};
use crate::telemetry::Origin;

/// What was asked for. Dropped before it was told how it ended, it was cancelled.
#[derive(Debug)]
pub(super) struct Asked {
    /// Part of its caller's trace, where it has one.
    span: tracing::Span,
    started: Instant,
    entry: Option<TimelineEntry>,
}

impl Asked {
    /// Begins a call that is part of this.
    pub(super) fn begin(parent: &tracing::Span, origin: &Origin, call: &'static str, about: &str) -> Self {
        let entry = TimelineEntry { origin: origin.clone(), ..TimelineEntry::of(call, about) };
        Self { span: entry.span(parent), started: Instant::now(), entry: Some(entry) }
    }

    /// Ends it and tells the log; what is to be remembered, if that was not said before.
    pub(super) fn finish(&mut self, outcome: TimelineOutcome) -> Option<TimelineEntry> {
        let entry = self.entry.take()?;
        let entry = TimelineEntry { took: self.started.elapsed(), outcome, ..entry };
        entry.log(&self.span);
        Some(entry)
    }
}

impl Drop for Asked {
    fn drop(&mut self) {
        self.finish(TimelineOutcome::Cancelled);
    }
}

/// A call that changes a sandbox, such as a pause.
#[derive(Debug)]
pub(super) struct Change<'a> {
    service: &'a Service,
    sandbox: &'a Sandbox,
    asked: Asked,
}

impl<'a> Change<'a> {
    /// Begins a change that is part of this.
    pub(super) fn begin(
        service: &'a Service,
        sandbox: &'a Sandbox,
        origin: &Origin,
        call: &'static str,
    ) -> Self {
        Self { service, sandbox, asked: Asked::begin(&sandbox.span, origin, call, "") }
    }

    /// Remembers how it went.
    pub(super) fn done<T>(mut self, result: Result<T, ServiceError>) -> Result<T, ServiceError> {
        let outcome = result.as_ref().map_or_else(TimelineOutcome::of, |_| TimelineOutcome::Done);
        let entry = self.asked.finish(outcome);
        self.service.remember(self.sandbox, entry);
        result
    }
}

impl Service {
    /// Puts calls into the timeline of a sandbox.
    pub(super) fn remember(&self, sandbox: &Sandbox, entries: impl IntoIterator<Item = TimelineEntry>) {
        let mut inner = sandbox.lock();
        for entry in entries {
            inner.timeline.push(entry, self.config().timeline_entries);
        }
    }
}
