//! What can honestly be said about a handful of samples.
//!
//! Pure functions. A percentile that too few samples support is not a number but a reason: with fewer than
//! twenty samples the 95th percentile would be the slowest one, with fewer than a hundred the 99th.

use serde::{Deserialize, Serialize};

/// A number, or why there is none.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Figure {
    /// It was measured.
    Value(f64),
    /// It was not, for this reason.
    Unknown(String),
}

impl Figure {
    /// The number, if there is one.
    #[must_use]
    pub fn value(&self) -> Option<f64> {
        match self {
            Self::Value(value) => Some(*value),
            Self::Unknown(_) => None,
        }
    }

    /// Why there is none.
    #[must_use]
    pub fn reason(&self) -> Option<&str> {
        match self {
            Self::Value(_) => None,
            Self::Unknown(reason) => Some(reason),
        }
    }
}

/// What is known about one series of samples.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Summary {
    /// Samples that succeeded.
    pub n: usize,
    /// The middle.
    pub p50: Figure,
    /// Nineteen of twenty are not above it.
    pub p95: Figure,
    /// Ninety-nine of a hundred are not above it.
    pub p99: Figure,
    /// The most.
    pub max: Figure,
    /// Median distance from the median: the spread that a single slow sample does not change.
    pub mad: Figure,
    /// Samples beyond one and a half times the range of the middle half. They are counted, never removed.
    pub outliers: usize,
}

impl Summary {
    /// Sums up.
    #[must_use]
    pub fn of(samples: &[f64]) -> Self {
        let mut sorted = samples.to_vec();
        sorted.sort_by(f64::total_cmp);
        let n = sorted.len();
        let from = |value: Option<f64>| match value {
            Some(value) => Figure::Value(value),
            None => Figure::Unknown("no sample succeeded".to_owned()),
        };
        let centre = percentile(&sorted, 50);
        Self {
            n,
            p50: from(centre),
            p95: supported(&sorted, 95),
            p99: supported(&sorted, 99),
            max: from(sorted.last().copied()),
            mad: from(centre.and_then(|centre| deviation(&sorted, centre))),
            outliers: outliers(&sorted),
        }
    }
}

/// The value that `percent` of all are not above; `sorted` is.
#[must_use]
pub fn percentile(sorted: &[f64], percent: usize) -> Option<f64> {
    let rank = (sorted.len() * percent).div_ceil(100).max(1);
    sorted.get(rank - 1).copied()
}

/// A high percentile, where at least one sample may lie above it.
fn supported(sorted: &[f64], percent: usize) -> Figure {
    let needed = 100 / (100 - percent);
    match percentile(sorted, percent) {
        Some(value) if sorted.len() >= needed => Figure::Value(value),
        _ => Figure::Unknown(format!("p{percent} needs {needed} samples, there are {}", sorted.len())),
    }
}

fn deviation(sorted: &[f64], centre: f64) -> Option<f64> {
    let mut distances: Vec<f64> = sorted.iter().map(|sample| (sample - centre).abs()).collect();
    distances.sort_by(f64::total_cmp);
    percentile(&distances, 50)
}

/// How many lie beyond Tukey's fences.
fn outliers(sorted: &[f64]) -> usize {
    let (Some(low), Some(high)) = (percentile(sorted, 25), percentile(sorted, 75)) else { return 0 };
    let reach = 1.5 * (high - low);
    sorted.iter().filter(|sample| **sample < low - reach || **sample > high + reach).count()
}

#[cfg(test)]
mod tests;
