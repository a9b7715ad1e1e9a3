//! Samples as they come in, by series. Written by scenarios, read by the report.
//!
//! A failure is part of a series: it is counted and shown, and no figure is made of it.

use std::time::Duration;

use rekindle::engine::Timings;
use serde::{Deserialize, Serialize};

use crate::scenario::Scenario;

/// What a series is measured in.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Unit {
    /// Milliseconds.
    Millis,
    /// Mebibytes.
    Mebibytes,
    /// Mebibytes a second.
    MebibytesPerSecond,
}

impl Unit {
    /// As it is written behind a number.
    #[must_use]
    pub fn symbol(self) -> &'static str {
        match self {
            Self::Millis => "ms",
            Self::Mebibytes => "MiB",
            Self::MebibytesPerSecond => "MiB/s",
        }
    }
}

/// Where the files of the snapshot were when a sample began.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum PageCache {
    /// In memory.
    Hot,
    /// On the disk.
    Cold,
    /// It does not matter, or was left as it was.
    Any,
}

impl PageCache {
    /// As it is written behind a name.
    #[must_use]
    pub fn label(self) -> &'static str {
        match self {
            Self::Hot => "hot",
            Self::Cold => "cold",
            Self::Any => "",
        }
    }
}

/// What a series is.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Kind {
    /// Its name, by which ratios find it.
    pub name: String,
    /// The scenario it belongs to.
    pub scenario: Scenario,
    /// What exactly is measured, in a few words.
    pub what: String,
    /// What it is measured in.
    pub unit: Unit,
    /// Where the snapshot's files were.
    pub cache: PageCache,
}

impl Kind {
    /// A duration.
    #[must_use]
    pub fn time(scenario: Scenario, name: &str, what: &str) -> Self {
        let (name, what) = (name.to_owned(), what.to_owned());
        Self { name, scenario, what, unit: Unit::Millis, cache: PageCache::Any }
    }

    /// The same in another unit.
    #[must_use]
    pub fn in_unit(self, unit: Unit) -> Self {
        Self { unit, ..self }
    }

    /// The same with the page cache in a known state.
    #[must_use]
    pub fn with_cache(self, cache: PageCache) -> Self {
        Self { cache, ..self }
    }
}

/// One step of a sample.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Stage {
    /// Its name.
    pub name: String,
    /// Milliseconds.
    pub millis: f64,
}

/// One measurement.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Sample {
    /// In the unit of its series.
    pub value: f64,
    /// Where the time went; adds up to the value. Empty where it has no steps.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub stages: Vec<Stage>,
}

impl Sample {
    /// A duration without steps.
    #[must_use]
    pub fn of(took: Duration) -> Self {
        Self { value: millis(took), stages: Vec::new() }
    }

    /// A number in the unit of its series.
    #[must_use]
    pub fn number(value: f64) -> Self {
        Self { value, stages: Vec::new() }
    }

    /// A start: its stages, as they were reported, and what of the whole time no stage claims.
    #[must_use]
    pub fn start(timings: &Timings, whole: Duration) -> Self {
        let mut stages: Vec<Stage> = Vec::new();
        for stage in &timings.stages {
            match stages.iter_mut().find(|known| known.name == stage.name) {
                Some(known) => known.millis += millis(stage.took),
                None => stages.push(Stage { name: stage.name.to_owned(), millis: millis(stage.took) }),
            }
        }
        let rest = whole.saturating_sub(timings.total());
        stages.push(Stage { name: "other".to_owned(), millis: millis(rest) });
        Self { value: stages.iter().map(|stage| stage.millis).sum(), stages }
    }

    /// The same start up to and without a stage.
    #[must_use]
    pub fn before(&self, end: &str) -> Self {
        let stages: Vec<Stage> = self.stages.iter().take_while(|stage| stage.name != end).cloned().collect();
        Self { value: stages.iter().map(|stage| stage.millis).sum(), stages }
    }

    /// The same start and one more stage.
    #[must_use]
    pub fn and(&self, name: &str, took: Duration) -> Self {
        let mut stages = self.stages.clone();
        stages.push(Stage { name: name.to_owned(), millis: millis(took) });
        Self { value: self.value + millis(took), stages }
    }
}

/// A duration in milliseconds.
#[must_use]
pub fn millis(took: Duration) -> f64 {
    took.as_secs_f64() * 1e3
}

/// All samples of one kind.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Series {
    /// What they are.
    #[serde(flatten)]
    pub kind: Kind,
    /// The ones that succeeded, in order.
    pub samples: Vec<Sample>,
    /// Why the others did not.
    pub failures: Vec<String>,
}

impl Series {
    /// The values of all samples.
    #[must_use]
    pub fn values(&self) -> Vec<f64> {
        self.samples.iter().map(|sample| sample.value).collect()
    }

    /// The mean of each stage, in the order of the first sample. They add up to the mean.
    #[must_use]
    pub fn stage_means(&self) -> Vec<Stage> {
        let names = self.samples.first().map(|sample| sample.stages.as_slice()).unwrap_or_default();
        names
            .iter()
            .map(|Stage { name, .. }| {
                let of = |sample: &Sample| {
                    sample
                        .stages
                        .iter()
                        .filter(|stage| stage.name == *name)
                        .map(|stage| stage.millis)
                        .sum::<f64>()
                };
                let total: f64 = self.samples.iter().map(of).sum();
                Stage { name: name.clone(), millis: total / self.samples.len() as f64 }
            })
            .collect()
    }
}

/// A scenario that was asked for and could not run here.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Skip {
    /// Which.
    pub scenario: Scenario,
    /// Why.
    pub reason: String,
}

/// Everything measured so far.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct Record {
    /// By kind, in the order they first came.
    pub series: Vec<Series>,
    /// What could not be measured at all.
    pub skips: Vec<Skip>,
}

impl Record {
    /// Adds a sample.
    pub fn add(&mut self, kind: Kind, sample: Sample) {
        self.series_of(kind).samples.push(sample);
    }

    /// Counts a failure.
    pub fn fail(&mut self, kind: Kind, reason: String) {
        self.series_of(kind).failures.push(reason);
    }

    /// Leaves a scenario out.
    pub fn skip(&mut self, scenario: Scenario, reason: impl Into<String>) {
        self.skips.push(Skip { scenario, reason: reason.into() });
    }

    /// The series of that name.
    #[must_use]
    pub fn find(&self, name: &str) -> Option<&Series> {
        self.series.iter().find(|series| series.kind.name == name)
    }

    fn series_of(&mut self, kind: Kind) -> &mut Series {
        let at = self.series.iter().position(|series| series.kind.name == kind.name);
        let at = at.unwrap_or_else(|| {
            self.series.push(Series { kind, samples: Vec::new(), failures: Vec::new() });
            self.series.len() - 1
        });
        &mut self.series[at]
    }
}

#[cfg(test)]
mod tests;
