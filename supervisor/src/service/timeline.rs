//! What happened in one sandbox: the last calls, each with its outcome and its cost.

use std::collections::VecDeque;
use std::time::{Duration, SystemTime};

use super::error::{ErrorKind, ServiceError};
use super::id::ExecutionId;
use super::sandbox::EndReason;
use crate::agent::{AgentError, Outcome};
use crate::network::NetworkSummary;
use crate::telemetry::Origin;

/// Characters kept of what a call was about.
const SUBJECT: usize = 120;

/// One call.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TimelineEntry {
    /// Name of the call.
    pub call: &'static str,
    /// The execution, if it was one.
    pub execution: Option<ExecutionId>,
    /// What it is part of, by its caller's word.
    pub origin: Origin,
    /// What it was about, shortened and made printable.
    pub subject: String,
    /// When it began.
    pub at: SystemTime,
    /// How long it took.
    pub took: Duration,
    /// What came of it.
    pub outcome: TimelineOutcome,
    /// Processor time of the execution.
    pub cpu_time: Duration,
    /// Highest memory use of the execution.
    pub memory_peak_bytes: Option<u64>,
    /// Bytes into the sandbox.
    pub bytes_in: u64,
    /// Bytes out of it.
    pub bytes_out: u64,
    /// Connections of the execution to the outside.
    pub connections: u64,
    /// Those that were denied.
    pub connections_denied: u64,
    /// Bytes that it sent to the outside.
    pub network_up: u64,
    /// Bytes that came from there.
    pub network_down: u64,
    /// What its requests to the gateway cost.
    pub gateway_cost: u64,
}

impl TimelineEntry {
    /// A call that begins now.
    pub(super) fn of(call: &'static str, about: &str) -> Self {
        Self {
            call,
            execution: None,
            origin: Origin::default(),
            subject: subject(about),
            at: SystemTime::now(),
            took: Duration::ZERO,
            // Until it says otherwise: a call that is dropped was.
            outcome: TimelineOutcome::Cancelled,
            cpu_time: Duration::ZERO,
            memory_peak_bytes: None,
            bytes_in: 0,
            bytes_out: 0,
            connections: 0,
            connections_denied: 0,
            network_up: 0,
            network_down: 0,
            gateway_cost: 0,
        }
    }
}

impl TimelineEntry {
    /// Puts what it did on the network into it.
    pub(super) fn note_network(&mut self, network: &NetworkSummary) {
        (self.connections, self.connections_denied) = (network.connections, network.denied);
        (self.network_up, self.network_down) = (network.up, network.down);
        self.gateway_cost = network.gateway_cost;
    }

    /// The span that it is: one of its caller's trace, or else below another one.
    pub(super) fn span(&self, parent: &tracing::Span) -> tracing::Span {
        let step = self.origin.step.as_ref().map(tracing::field::display);
        let trace = self.origin.trace_id().map(tracing::field::display);
        let span = tracing::info_span!(parent: parent, "call", otel.name = self.call, trace, step);
        self.origin.adopt(&span);
        span
    }

    /// Tells the log of it, once it is over.
    pub(super) fn log(&self, span: &tracing::Span) {
        // Entered, as a line in JSON has only the spans that are.
        span.in_scope(|| {
            tracing::info!(
                call = self.call,
                execution = self.execution.map(tracing::field::display),
                outcome = ?self.outcome,
                took_us = u64::try_from(self.took.as_micros()).unwrap_or(u64::MAX),
                "call"
            );
        });
    }
}

/// What came of a call.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum TimelineOutcome {
    /// It did what it was asked for.
    Done,
    /// The program ended so.
    Execution(Outcome),
    /// The call failed.
    Failed(ErrorKind),
    /// The sandbox ended under it, or before.
    Ended(EndReason),
    /// Its caller went away.
    Cancelled,
}

impl TimelineOutcome {
    /// What became of a call that failed so.
    pub(super) fn of(error: &ServiceError) -> Self {
        match error {
            ServiceError::Ended { end, .. } => Self::Ended(end.reason),
            // One side of a transfer broke off.
            ServiceError::Agent(AgentError::Source(_) | AgentError::Sink(_)) => Self::Cancelled,
            ServiceError::Shared(error) => Self::of(error),
            other => Self::Failed(other.kind()),
        }
    }

    /// Its short name, without the exit code or the signal.
    #[must_use]
    pub fn word(self) -> &'static str {
        match self {
            Self::Done => "ok",
            Self::Execution(Outcome::Exited(_)) => "exited",
            Self::Execution(Outcome::Signaled(_)) => "signaled",
            Self::Execution(Outcome::TimedOut) => "timed_out",
            Self::Execution(Outcome::OutOfMemory) => "out_of_memory",
            Self::Execution(Outcome::Cancelled) | Self::Cancelled => "cancelled",
            Self::Failed(kind) => kind.word(),
            Self::Ended(reason) => reason.word(),
        }
    }
}

/// The last calls of a sandbox, oldest first.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Timeline {
    /// The calls.
    pub entries: VecDeque<TimelineEntry>,
    /// How many were dropped to make room.
    pub dropped: u64,
}

impl Timeline {
    /// Adds a call; the oldest make room.
    pub(super) fn push(&mut self, entry: TimelineEntry, most: usize) {
        while self.entries.len() >= most.max(1) {
            self.entries.pop_front();
            self.dropped += 1;
        }
        self.entries.push_back(entry);
    }
}

/// A short, printable version of a caller's words.
pub(super) fn subject(text: &str) -> String {
    let line = text.lines().find(|line| !line.trim().is_empty()).unwrap_or_default();
    line.chars().map(|c| if c.is_control() { ' ' } else { c }).take(SUBJECT).collect()
}

#[cfg(test)]
mod tests {
    //! Bounded and printable, and told with what it is part of.

    use super::*;
    use crate::config::server::LogFormat;
    use crate::telemetry::lines::written;

    const TRACE: &str = "4bf92f3577b34da6a3ce929d0e0e4736";

    /// A call of a step of a trace, in a sandbox, that has ended.
    fn of_a_trace() {
        let origin = Origin {
            trace: Some(format!("00-{TRACE}-00f067aa0ba902b7-01").parse().expect("a trace")),
            step: Some("a-step-of-mine".parse().expect("a step")),
        };
        let entry = TimelineEntry { origin, ..TimelineEntry::of("a-call-of-mine", "x") };
        let sandbox = tracing::info_span!("sandbox", id = "s1");
        entry.log(&entry.span(&sandbox));
    }

    #[test]
    fn a_line_of_the_log_has_the_trace_and_the_step_of_its_call() {
        let line: serde_json::Value =
            serde_json::from_str(&written(LogFormat::Json, of_a_trace)).expect("a line");
        assert_eq!(
            (&line["call"], &line["spans"][0]["id"]),
            (&"a-call-of-mine".into(), &"s1".into()),
            "{line}"
        );
        assert_eq!(
            (&line["span"]["trace"], &line["span"]["step"]),
            (&TRACE.into(), &"a-step-of-mine".into()),
            "{line}"
        );
        let text = written(LogFormat::Text, of_a_trace);
        assert!(text.contains(&format!("trace={TRACE} step=a-step-of-mine")), "{text}");
        // A call that is part of nothing says nothing of it.
        let plain = written(LogFormat::Json, || {
            let entry = TimelineEntry::of("execute", "x");
            entry.log(&entry.span(&tracing::info_span!("sandbox", id = "s1")));
        });
        assert!(!plain.contains("trace") && !plain.contains("step"), "{plain}");
    }

    #[cfg(feature = "otlp")]
    #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
    async fn a_span_that_is_sent_is_of_its_callers_trace_and_has_the_step() {
        use crate::telemetry::collector::{collected, has};

        let sent = collected("a-step-of-mine", of_a_trace).await;
        assert!(has(&sent, b"a-call-of-mine"), "it is called as the call is");
        assert!(has(&sent, &u128::from_str_radix(TRACE, 16).expect("a number").to_be_bytes()));
        assert!(has(&sent, &0x00f0_67aa_0ba9_02b7_u64.to_be_bytes()), "below its caller's span");
        assert!(has(&sent, b"\x04step"), "by a name of its own");
    }

    #[test]
    fn the_oldest_make_room_and_are_counted() {
        let mut timeline = Timeline::default();
        for number in 0..5 {
            timeline.push(TimelineEntry::of("execute", &number.to_string()), 3);
        }
        assert_eq!(timeline.dropped, 2);
        assert_eq!(
            timeline.entries.iter().map(|entry| &entry.subject[..]).collect::<Vec<_>>(),
            ["2", "3", "4"]
        );
    }

    #[test]
    fn what_a_call_was_about_fits_on_a_line() {
        assert_eq!(subject("\n  \nprint(1)\nprint(2)"), "print(1)");
        assert_eq!(subject("a\u{1b}[31mb"), "a [31mb");
        assert_eq!(subject(&"x".repeat(500)).len(), SUBJECT);
    }
}
