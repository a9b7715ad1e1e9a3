//! The promises, as ratios of what was measured side by side, and which of them this run keeps.
//!
//! Pure functions of a record. A ratio whose parts were not measured, or too few times, has no value but a
//! reason; one without a promise is there for information.

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
#[derive(Debug, Clone, Copy)]
struct Comparison {
    name: &'static str,
    over: &'static str,
    /// Nothing where the promise is on the figure itself.
    under: Option<&'static str>,
    what: &'static str,
    promise: Option<(Bound, f64)>,
    /// The only engine the promise is for.
    engine: Option<EngineKind>,
}

const fn ratio(
    name: &'static str,
    over: &'static str,
    under: &'static str,
    what: &'static str,
    promise: Option<(Bound, f64)>,
) -> Comparison {
    Comparison { name, over, under: Some(under), what, promise, engine: None }
}

const fn figure(
    name: &'static str,
    of: &'static str,
    what: &'static str,
    most: f64,
    engine: EngineKind,
) -> Comparison {
    Comparison {
        name,
        over: of,
        under: None,
        what,
        promise: Some((Bound::AtMost, most)),
        engine: Some(engine),
    }
}

use Bound::{AtLeast, AtMost};

const COMPARISONS: &[Comparison] = &[
    ratio(
        "restore_over_floor",
        "restore",
        "floor",
        "a restore against the least it can cost, to the agent's first answer",
        Some((AtMost, 1.25)),
    ),
    ratio("restore_usable_over_floor", "restore_usable", "floor_usable", "the same, to an open gate", None),
    ratio(
        "boot_over_restore",
        "cold_boot",
        "restore",
        "a cold boot against a restore, to the agent's first answer",
        None,
    ),
    ratio(
        "boot_over_restore_output",
        "cold_boot_output",
        "restore_output",
        "the same, to the first output",
        None,
    ),
    ratio(
        "boot_over_restore_python",
        "cold_boot_python",
        "restore_python",
        "the same, to the first output of Python",
        None,
    ),
    ratio(
        "restore_over_prespawned",
        "restore_output",
        "restore_prespawned_output",
        "a restore against one into a monitor that waits, to the first output",
        None,
    ),
    ratio(
        "claim_over_restore",
        "claim_parked_output",
        "restore_output",
        "claiming a parked machine against a restore, to the first output",
        Some((AtMost, 1.0 / 3.0)),
    ),
    ratio(
        "cold_over_hot",
        "restore_cold_output",
        "restore_output",
        "a cold page cache against a hot one, to the first output",
        None,
    ),
    ratio(
        "working_set_cold",
        "ws_cold_with",
        "ws_cold_without",
        "reading the working set early against not, cold page cache, to the end of the first Python program",
        None,
    ),
    ratio("working_set_hot", "ws_hot_with", "ws_hot_without", "the same with a hot page cache", None),
    ratio(
        "python_speedup",
        "first_python_plain",
        "first_python",
        "a plain Python against `code`, first execution",
        Some((AtLeast, 4.0)),
    ),
    ratio(
        "data_speedup",
        "python_data_plain",
        "python_data",
        "a plain Python with numpy and pandas against `code`, first execution",
        Some((AtLeast, 10.0)),
    ),
    ratio(
        "node_speedup",
        "first_node_plain",
        "first_node",
        "a plain Node against `code`, first execution",
        Some((AtLeast, 3.0)),
    ),
    ratio(
        "exec_over_ping",
        "exec_roundtrip",
        "ping",
        "an execution without its program's time against a bare round trip",
        Some((AtMost, 3.0)),
    ),
    Comparison {
        name: "grpc_added_ms",
        over: "grpc_added",
        under: None,
        what: "what the service adds to an execution, in milliseconds",
        promise: Some((AtMost, 1.0)),
        engine: None,
    },
    ratio(
        "upload_over_raw",
        "upload",
        "raw_in",
        "an upload's throughput against the raw channel's",
        Some((AtLeast, 0.6)),
    ),
    ratio(
        "download_over_raw",
        "download",
        "raw_out",
        "a download's throughput against the raw channel's",
        Some((AtLeast, 0.6)),
    ),
    ratio("eight_over_one", "burst_8", "burst_1", "eight starts at once against one", Some((AtMost, 5.0))),
    figure("private_mib", "private", "private memory of an idle clone, in MiB", 24.0, EngineKind::Qemu),
    figure(
        "anonymous_mib",
        "anonymous",
        "anonymous memory of an idle clone, in MiB",
        8.0,
        EngineKind::Firecracker,
    ),
    ratio(
        "restore_over_container",
        "restore_output",
        "container_output",
        "a restore against a container, to the first output",
        None,
    ),
    ratio(
        "restore_over_bubblewrap",
        "restore_output",
        "bubblewrap_output",
        "a restore against a confined process, to the first output",
        None,
    ),
];

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

/// Compares everything that was asked for. What belongs to scenarios that did not run is left out.
#[must_use]
pub fn compare(record: &Record, engine: EngineKind) -> Vec<Ratio> {
    COMPARISONS
        .iter()
        .filter(|comparison| comparison.engine.is_none_or(|only| only == engine))
        .filter(|comparison| {
            let known = |name: &str| record.find(name).is_some();
            known(comparison.over) && comparison.under.is_none_or(known)
        })
        .map(|comparison| {
            let value = value(record, comparison);
            let promise = comparison.promise.map(|(bound, limit)| Promise {
                bound,
                limit,
                kept: value.value().map(|value| bound.holds(value, limit)),
            });
            Ratio { name: comparison.name.into(), what: comparison.what.into(), value, promise }
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
        if comparison.promise.is_some() && n < ENOUGH {
            return Err(format!("{name} has {n} samples, a promise needs {ENOUGH}"));
        }
        Ok(series)
    };
    let made = whole(comparison.over).and_then(|over| match comparison.under {
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
