//! Where the time of a start went: laps without gaps, so that they add up to the whole.
//!
//! Engines time their steps with a [`Stopwatch`]; `vm` adds its own and shows the sum.

use std::time::{Duration, Instant};

use serde::Serialize;

/// One step and how long it took.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
pub struct Lap {
    /// The step's name.
    pub stage: &'static str,
    /// Its duration.
    #[serde(rename = "us", serialize_with = "as_micros")]
    pub took: Duration,
}

/// The steps of one start, in order.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize)]
pub struct Timings {
    /// The laps.
    pub laps: Vec<Lap>,
}

impl Timings {
    /// All laps together.
    #[must_use]
    pub fn total(&self) -> Duration {
        self.laps.iter().map(|lap| lap.took).sum()
    }

    /// Adds the laps of a following part.
    pub fn extend(&mut self, other: &Self) {
        self.laps.extend_from_slice(&other.laps);
    }
}

/// Measures laps.
#[derive(Debug)]
pub struct Stopwatch {
    last: Instant,
    timings: Timings,
}

impl Stopwatch {
    /// Starts the first lap.
    #[must_use]
    pub fn start() -> Self {
        Self { last: Instant::now(), timings: Timings::default() }
    }

    /// Ends the lap as `stage` and starts the next.
    pub fn lap(&mut self, stage: &'static str) {
        let now = Instant::now();
        self.timings.laps.push(Lap { stage, took: now - self.last });
        self.last = now;
    }

    /// Starts the next lap now, leaving the time since the last one out: a prepared monitor waits
    /// for its turn, and that is nobody's start.
    pub fn skip(&mut self) {
        self.last = Instant::now();
    }

    /// What was measured.
    #[must_use]
    pub fn finish(self) -> Timings {
        self.timings
    }
}

fn as_micros<S: serde::Serializer>(took: &Duration, serializer: S) -> Result<S::Ok, S::Error> {
    serializer.serialize_u64(u64::try_from(took.as_micros()).unwrap_or(u64::MAX))
}
