//! Where the time of a command went: stages without gaps, so that they add up to the whole.

use std::time::{Duration, Instant};

use rekindle::engine::{Stage, Timings};
use serde::Serialize;

use super::remote::view::measured;

/// Stages that add up to the total.
#[derive(Debug, Serialize)]
pub struct Breakdown {
    stages: Vec<Row>,
    total: String,
}

/// One of them.
#[derive(Debug, Serialize)]
struct Row {
    name: &'static str,
    duration: String,
}

/// Stages of a command, from its start to its end.
pub struct StageClock {
    last: Instant,
    stages: Vec<Stage>,
}

impl StageClock {
    /// Starts the first stage.
    pub fn start() -> Self {
        Self { last: Instant::now(), stages: Vec::new() }
    }

    /// Ends the stage and starts the next.
    pub fn stage(&mut self, name: &'static str) {
        let now = Instant::now();
        self.stages.push(Stage { name, took: now - self.last });
        self.last = now;
    }

    /// Takes over stages another clock measured since the last stage; what they do not cover is its own stage.
    pub fn take(&mut self, timings: &Timings) {
        let now = Instant::now();
        let uncovered = (now - self.last).saturating_sub(timings.total());
        self.stages.extend_from_slice(&timings.stages);
        self.stages.push(Stage { name: "between stages", took: uncovered });
        self.last = now;
    }

    /// The table. Its total is the sum of the whole microseconds shown, so that who adds them up gets it.
    pub fn finish(self) -> Breakdown {
        let shown =
            |took: Duration| Duration::from_micros(u64::try_from(took.as_micros()).unwrap_or(u64::MAX));
        let total = self.stages.iter().map(|stage| shown(stage.took)).sum();
        let row = |stage: Stage| Row { name: stage.name, duration: measured(stage.took) };
        Breakdown { stages: self.stages.into_iter().map(row).collect(), total: measured(total) }
    }
}
