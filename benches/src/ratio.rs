//! The promises, as ratios of what was measured side by side, and which of them this run keeps.
//!
//! Pure functions of a record and the table in `comparisons.toml`. A ratio whose parts were not measured, or too few times, has no value but a
//! reason; one without a promise is there for information.

use std::sync::LazyLock;

use rekindle::engine::EngineKind;
use serde::{Deserialize, Serialize};

use crate::args::ENOUGH;
use crate::record::{Record, Series};
use crate::stats::{Figure, Summary};

/// Which way a promise goes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Bound {
    /// Not above the limit: lower is better.
    AtMost,
    /// Not below the limit: higher is better.
    AtLeast,
}

impl Bound {
    /// Whether a value is within the limit.
    #[must_use]
    pub fn holds(self, value: f64, limit: f64) -> bool {
        match self {
            Self::AtMost => value <= limit,
            Self::AtLeast => value >= limit,
        }
    }

    /// As it is written before the limit.
    #[must_use]
    pub fn symbol(self) -> &'static str {
        match self {
            Self::AtMost => "≤",
            Self::AtLeast => "≥",
        }
    }
}

/// What is compared.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Comparison {
    name: String,
    over: String,
    /// Nothing where the promise is on the figure itself.
    under: Option<String>,
    at_most: Option<f64>,
    at_least: Option<f64>,
    /// The only engine the promise is for.
    engine: Option<EngineKind>,
    what: String,
}

impl Comparison {
    fn promise(&self) -> Option<(Bound, f64)> {
        let at_least = self.at_least.map(|limit| (Bound::AtLeast, limit));
        self.at_most.map(|limit| (Bound::AtMost, limit)).or(at_least)
    }
}

/// All of them.
static COMPARISONS: LazyLock<Vec<Comparison>> = LazyLock::new(|| {
    #[derive(Deserialize)]
    struct Table {
        comparison: Vec<Comparison>,
    }
    toml::from_str::<Table>(include_str!("../comparisons.toml")).expect("the table is in order").comparison
});

/// What came of one comparison.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Ratio {
    /// Its name, as baselines use it.
    pub name: String,
    /// In words.
    pub what: String,
    /// The value: the median of the ratios of all rounds where the two took turns, the ratio of medians otherwise.
    pub value: Figure,
    /// What is promised.
    pub promise: Option<Promise>,
}

/// A promise and whether it was kept.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Promise {
    /// Which way.
    pub bound: Bound,
    /// How far.
    pub limit: f64,
    /// Whether this run kept it; nothing when it was not measured well enough to say.
    pub kept: Option<bool>,
}

impl Promise {
    /// In one word.
    #[must_use]
    pub fn verdict(&self) -> &'static str {
        match self.kept {
            Some(true) => "kept",
            Some(false) => "BROKEN",
            None => "unknown",
        }
    }
}

/// Compares everything that was asked for. What belongs to scenarios that did not run is left out.
#[must_use]
pub fn compare(record: &Record, engine: EngineKind) -> Vec<Ratio> {
    COMPARISONS
        .iter()
        .filter(|comparison| comparison.engine.is_none_or(|only| only == engine))
        .filter(|comparison| {
            let known = |name: &str| record.find(name).is_some();
            known(&comparison.over) && comparison.under.as_deref().is_none_or(known)
        })
        .map(|comparison| {
            let value = value(record, comparison);
            let promise = comparison.promise().map(|(bound, limit)| Promise {
                bound,
                limit,
                kept: value.value().map(|value| bound.holds(value, limit)),
            });
            Ratio { name: comparison.name.clone(), what: comparison.what.clone(), value, promise }
        })
        .collect()
}

fn value(record: &Record, comparison: &Comparison) -> Figure {
    let whole = |name: &str| -> Result<&Series, String> {
        let series = record.find(name).ok_or_else(|| format!("{name} was not measured"))?;
        if !series.failures.is_empty() {
            return Err(format!("{} samples of {name} failed", series.failures.len()));
        }
        let n = series.samples.len();
        if comparison.promise().is_some() && n < ENOUGH {
            return Err(format!("{name} has {n} samples, a promise needs {ENOUGH}"));
        }
        Ok(series)
    };
    let made = whole(&comparison.over).and_then(|over| match &comparison.under {
        None => middle(&over.values()),
        Some(under) => whole(under).and_then(|under| quotient(over, under)),
    });
    made.map_or_else(Figure::Unknown, Figure::Value)
}

/// How many times the one is the other. Of two that took turns every round has its own answer, and a machine whose
/// speed changes from one minute to the next changes both sides of it; their medians may come from different minutes.
fn quotient(over: &Series, under: &Series) -> Result<f64, String> {
    let (above, below) = (over.values(), under.values());
    if over.kind.scenario.takes_turns_with(under.kind.scenario) && above.len() == below.len() {
        return middle(&above.iter().zip(below).map(|(above, below)| above / below).collect::<Vec<_>>());
    }
    Ok(middle(&above)? / middle(&below)?)
}

fn middle(values: &[f64]) -> Result<f64, String> {
    Summary::of(values).p50.value().ok_or_else(|| "it was not measured".to_owned())
}

#[cfg(test)]
mod tests;
