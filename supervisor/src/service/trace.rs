//! What happened in one trace of a caller's, over all sandboxes it may see, and what each step of it adds up to.

use std::collections::HashMap;
use std::time::Duration;

use super::caller::Caller;
use super::error::ServiceError;
use super::id::SandboxId;
use super::registry::{Found, Service};
use super::timeline::{TimelineEntry, TimelineOutcome};
use crate::agent::Outcome;
use crate::telemetry::{Step, TraceId};

/// Calls that an answer has, the last ones. All of them are in its sums.
const MAX_ENTRIES: usize = 10_000;
/// Sandboxes that are looked at between two looks at what else there is to do.
const AT_ONCE: usize = 64;

/// One call of a trace.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TraceEntry {
    /// The sandbox it was in.
    pub sandbox: SandboxId,
    /// The call.
    pub entry: TimelineEntry,
}

/// A trace.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct TraceTimeline {
    /// Its calls, in the order they began.
    pub entries: Vec<TraceEntry>,
    /// Calls that are not among them: what was too many, and what its sandboxes no longer have.
    pub dropped: u64,
    /// Sums, in the order of the first calls.
    pub steps: Vec<StepSums>,
}

/// What the calls of one step add up to.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct StepSums {
    /// The step; `None` for the calls of none.
    pub step: Option<Step>,
    /// Calls.
    pub calls: u64,
    /// Those of them that ran a program or code.
    pub executions: u64,
    /// Calls that did not do what they were asked for.
    pub failures: u64,
    /// How long they took, one after the other.
    pub took: Duration,
    /// Processor time.
    pub cpu_time: Duration,
    /// Bytes into sandboxes.
    pub bytes_in: u64,
    /// Bytes out of them.
    pub bytes_out: u64,
    /// Connections to the outside.
    pub connections: u64,
    /// Those that were denied.
    pub connections_denied: u64,
    /// Bytes to the outside.
    pub network_up: u64,
    /// Bytes from there.
    pub network_down: u64,
    /// What the gateway cost.
    pub gateway_cost: u64,
}

impl Service {
    /// What happened in a trace, in one sandbox or in all that the caller may see.
    ///
    /// # Errors
    /// When the trace is none, or the caller has no sandbox of this name.
    pub async fn trace(
        &self,
        caller: &Caller,
        trace: &str,
        sandbox: Option<&str>,
    ) -> Result<TraceTimeline, ServiceError> {
        let id: TraceId = trace.parse().map_err(|error| ServiceError::invalid(format!("trace: {error}")))?;
        let all = match sandbox {
            Some(sandbox) => vec![self.find(caller, sandbox, true)?],
            None => self.all(caller, true),
        };
        let (mut entries, mut dropped) = (Vec::new(), 0);
        for some in all.chunks(AT_ONCE) {
            for found in some {
                dropped += found.collect(id, &mut entries);
            }
            tokio::task::yield_now().await;
        }
        entries.sort_by_key(|entry| entry.entry.at);
        let steps = sums(entries.iter().map(|entry| &entry.entry));
        let beyond = entries.len().saturating_sub(MAX_ENTRIES);
        entries.drain(..beyond);
        Ok(TraceTimeline { entries, dropped: dropped + beyond as u64, steps })
    }
}

impl Found {
    /// Adds the calls of a trace; how many calls it has dropped, where it has any of the trace.
    fn collect(&self, id: TraceId, into: &mut Vec<TraceEntry>) -> u64 {
        let before = into.len();
        let mut take = |sandbox: &SandboxId, timeline: &super::timeline::Timeline| {
            let of_it = timeline.entries.iter().filter(|entry| entry.origin.trace_id() == Some(id));
            into.extend(of_it.map(|entry| TraceEntry { sandbox: sandbox.clone(), entry: entry.clone() }));
            timeline.dropped
        };
        let dropped = match self {
            Self::Alive(sandbox) => take(&sandbox.facts.id, &sandbox.lock().timeline),
            Self::Gone(gone) => take(&gone.view.id, &gone.timeline),
        };
        if into.len() > before { dropped } else { 0 }
    }
}

/// What calls add up to, by their steps.
fn sums<'a>(entries: impl Iterator<Item = &'a TimelineEntry>) -> Vec<StepSums> {
    let mut steps: Vec<StepSums> = Vec::new();
    let mut places: HashMap<Option<Step>, usize> = HashMap::new();
    for entry in entries {
        let place = *places.entry(entry.origin.step.clone()).or_insert_with(|| {
            steps.push(StepSums { step: entry.origin.step.clone(), ..StepSums::default() });
            steps.len() - 1
        });
        if let Some(step) = steps.get_mut(place) {
            step.add(entry);
        }
    }
    steps
}

impl StepSums {
    fn add(&mut self, entry: &TimelineEntry) {
        let done = [TimelineOutcome::Done, TimelineOutcome::Execution(Outcome::Exited(0))];
        self.calls += 1;
        // A context's code is run by a program that was there before.
        self.executions += u64::from(entry.execution.is_some() || entry.call == "run_code");
        self.failures += u64::from(!done.contains(&entry.outcome));
        self.took = self.took.saturating_add(entry.took);
        self.cpu_time = self.cpu_time.saturating_add(entry.cpu_time);
        for (sum, more) in [
            (&mut self.bytes_in, entry.bytes_in),
            (&mut self.bytes_out, entry.bytes_out),
            (&mut self.connections, entry.connections),
            (&mut self.connections_denied, entry.connections_denied),
            (&mut self.network_up, entry.network_up),
            (&mut self.network_down, entry.network_down),
            (&mut self.gateway_cost, entry.gateway_cost),
        ] {
            *sum = sum.saturating_add(more);
        }
    }
}

#[cfg(test)]
mod tests {
    //! What adds up to what.

    use super::super::error::ErrorKind;
    use super::super::id::ExecutionId;
    use super::*;
    use crate::telemetry::Origin;

    fn entry(step: Option<&str>, call: &'static str, outcome: TimelineOutcome) -> TimelineEntry {
        let step = step.map(|step| step.parse().expect("a step"));
        TimelineEntry {
            origin: Origin { trace: None, step },
            outcome,
            took: Duration::from_secs(1),
            network_up: 10,
            ..TimelineEntry::of(call, "")
        }
    }

    #[test]
    fn steps_are_summed_in_the_order_of_their_first_calls() {
        let exited = |code| TimelineOutcome::Execution(Outcome::Exited(code));
        let ran = TimelineEntry {
            execution: Some(ExecutionId(1)),
            cpu_time: Duration::from_millis(5),
            ..entry(Some("plan"), "execute", exited(1))
        };
        let all = [
            entry(Some("plan"), "upload", TimelineOutcome::Done),
            entry(None, "run_code", TimelineOutcome::Done),
            ran,
            entry(Some("act"), "download", TimelineOutcome::Failed(ErrorKind::InvalidRequest)),
            entry(Some("plan"), "execute", exited(0)),
        ];
        let steps = sums(all.iter());
        let told: Vec<_> = steps
            .iter()
            .map(|sums| {
                let name = sums.step.as_ref().map(Step::as_str);
                (name, sums.calls, sums.executions, sums.failures, sums.took.as_secs(), sums.network_up)
            })
            .collect();
        assert_eq!(
            told,
            [(Some("plan"), 3, 1, 1, 3, 30), (None, 1, 1, 0, 1, 10), (Some("act"), 1, 0, 1, 1, 10)]
        );
        assert_eq!(steps[0].cpu_time, Duration::from_millis(5));
    }
}
