//! Where the time of a start went: stages without gaps, so that they add up to the whole.
//!
//! Engines time their steps with a [`Stopwatch`]; `vm` adds its own and shows the sum.

use std::time::{Duration, Instant};

/// One step and how long it took.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Stage {
    /// The step's name.
    pub name: &'static str,
    /// Its duration.
    pub took: Duration,
}

/// The steps of one start, in order.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Timings {
    /// The stages.
    pub stages: Vec<Stage>,
}

impl Timings {
    /// All stages together.
    #[must_use]
    pub fn total(&self) -> Duration {
        self.stages.iter().map(|stage| stage.took).sum()
    }

    /// Adds the stages of a following part.
    pub fn extend(&mut self, other: &Self) {
        self.stages.extend_from_slice(&other.stages);
    }
}

/// Measures stages.
#[derive(Debug)]
pub struct Stopwatch {
    last: Instant,
    timings: Timings,
}

impl Stopwatch {
    /// Starts the first stage.
    #[must_use]
    pub fn start() -> Self {
        Self { last: Instant::now(), timings: Timings::default() }
    }

    /// Ends the stage as `name` and starts the next.
    pub fn stage(&mut self, name: &'static str) {
        let now = Instant::now();
        self.timings.stages.push(Stage { name, took: now - self.last });
        self.last = now;
    }

    /// Starts the next stage now, leaving the time since the last one out: a prespawned monitor waits
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
