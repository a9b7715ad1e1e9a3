//! What happened in one sandbox: the last calls, each with its outcome and its cost.

use std::collections::VecDeque;
use std::time::{Duration, SystemTime};

use super::id::ExecutionId;

/// Characters kept of what a call was about.
const SUBJECT: usize = 120;

/// One call.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TimelineEntry {
    /// Name of the call.
    pub call: &'static str,
    /// The execution, if it was one.
    pub execution: Option<ExecutionId>,
    /// What it was about, shortened and made printable.
    pub subject: String,
    /// When it began.
    pub at: SystemTime,
    /// How long it took.
    pub took: Duration,
    /// How it ended.
    pub outcome: String,
    /// Processor time of the execution.
    pub cpu_micros: u64,
    /// Highest memory use of the execution.
    pub peak_memory_bytes: u64,
    /// Bytes into the sandbox.
    pub bytes_in: u64,
    /// Bytes out of it.
    pub bytes_out: u64,
}

impl TimelineEntry {
    /// A call that begins now.
    pub(super) fn of(call: &'static str, about: &str) -> Self {
        Self {
            call,
            execution: None,
            subject: subject(about),
            at: SystemTime::now(),
            took: Duration::ZERO,
            outcome: String::new(),
            cpu_micros: 0,
            peak_memory_bytes: 0,
            bytes_in: 0,
            bytes_out: 0,
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
fn subject(text: &str) -> String {
    let line = text.lines().find(|line| !line.trim().is_empty()).unwrap_or_default();
    line.chars().map(|c| if c.is_control() { ' ' } else { c }).take(SUBJECT).collect()
}

#[cfg(test)]
mod tests {
    //! Bounded and printable.

    use super::*;

    fn entry(outcome: &str) -> TimelineEntry {
        TimelineEntry {
            call: "execute",
            execution: None,
            subject: String::new(),
            at: SystemTime::UNIX_EPOCH,
            took: Duration::ZERO,
            outcome: outcome.into(),
            cpu_micros: 0,
            peak_memory_bytes: 0,
            bytes_in: 0,
            bytes_out: 0,
        }
    }

    #[test]
    fn the_oldest_make_room_and_are_counted() {
        let mut timeline = Timeline::default();
        for number in 0..5 {
            timeline.push(entry(&number.to_string()), 3);
        }
        assert_eq!(timeline.dropped, 2);
        assert_eq!(
            timeline.entries.iter().map(|entry| &entry.outcome[..]).collect::<Vec<_>>(),
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
