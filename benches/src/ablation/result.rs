//! What leaving a mechanism out does to a figure, and whether that is enough for it to stay.
//!
//! Pure functions of what was measured.

use std::fs;
use std::io;
use std::path::Path;

use serde::{Deserialize, Serialize};

use crate::args::ENOUGH;
use crate::fingerprint::Fingerprint;
use crate::record::Record;
use crate::report::number::{date, digits};
use crate::stats::percentile;

/// What a mechanism must be worth: without it the figure is at least so many times as large.
pub const WORTH: f64 = 1.1;

/// What a thing may cost that every start pays for: without it the figure is at least so many times as large.
pub const CHEAP: f64 = 1.0 / 1.02;

/// The middle of one short run, and how many samples it rests on; or why there is none.
pub type Measured = Result<(f64, usize), String>;

/// One round: a run with the mechanism and a run without it, one right after the other.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct Round {
    /// Milliseconds with it.
    pub on: f64,
    /// Milliseconds without it.
    pub off: f64,
    /// Samples of the side that has fewer.
    pub samples: usize,
}

/// What is to become of a mechanism, as far as one figure goes.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Verdict {
    /// It moves the figure by 10 % or more.
    Moves,
    /// It does not.
    DoesNot,
    /// It is no mechanism, and costs at most 2 % of the figure.
    Cheap,
    /// It costs more.
    Dear,
    /// It was not measured, or not often enough to say.
    Unknown(String),
}

/// One mechanism and one figure.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Row {
    /// The mechanism.
    pub name: String,
    /// The series.
    pub series: String,
    /// Every round that was measured.
    pub rounds: Vec<Round>,
    /// Milliseconds with it, the middle of all rounds.
    pub on: Option<f64>,
    /// Milliseconds without it.
    pub off: Option<f64>,
    /// Without over with: the middle of what each round gives.
    pub ratio: Option<f64>,
    /// What that means.
    pub verdict: Verdict,
}

impl Row {
    /// Puts rounds together. `failure` is why some of them are missing.
    #[must_use]
    pub fn of(name: &str, series: &str, rounds: Vec<Round>, failure: Option<String>) -> Self {
        Self::judged(name, series, rounds, failure, |ratio| match ratio >= WORTH {
            true => Verdict::Moves,
            false => Verdict::DoesNot,
        })
    }

    /// The same of what saves nothing: whether it costs little.
    #[must_use]
    pub fn of_what_it_costs(name: &str, series: &str, rounds: Vec<Round>, failure: Option<String>) -> Self {
        Self::judged(name, series, rounds, failure, |ratio| match ratio >= CHEAP {
            true => Verdict::Cheap,
            false => Verdict::Dear,
        })
    }

    fn judged(
        name: &str,
        series: &str,
        rounds: Vec<Round>,
        failure: Option<String>,
        judge: impl FnOnce(f64) -> Verdict,
    ) -> Self {
        let middle = |of: &dyn Fn(&Round) -> f64| {
            let mut values: Vec<f64> = rounds.iter().map(of).collect();
            values.sort_by(f64::total_cmp);
            percentile(&values, 50)
        };
        let ratio = middle(&|round| round.off / round.on);
        let samples: usize = rounds.iter().map(|round| round.samples).sum();
        let verdict = match (failure, ratio) {
            (Some(reason), _) => Verdict::Unknown(reason),
            (None, None) => Verdict::Unknown("not measured".to_owned()),
            (None, Some(_)) if samples < ENOUGH => {
                Verdict::Unknown(format!("{samples} samples of each side, {ENOUGH} are needed"))
            }
            (None, Some(ratio)) => judge(ratio),
        };
        let (on, off) = (middle(&|round| round.on), middle(&|round| round.off));
        Self { name: name.to_owned(), series: series.to_owned(), on, off, ratio, verdict, rounds }
    }
}

/// The middle of a series of one run.
///
/// # Errors
/// When a sample failed, or there is none.
pub fn measured(record: &Record, series: &str) -> Measured {
    let Some(found) = record.find(series) else {
        let reason = record.skips.first().map(|skip| skip.reason.clone());
        return Err(reason.unwrap_or_else(|| format!("{series} was not measured")));
    };
    if let Some(failure) = found.failures.first() {
        return Err(format!("a sample failed: {failure}"));
    }
    let mut values = found.values();
    values.sort_by(f64::total_cmp);
    percentile(&values, 50).map(|middle| (middle, values.len())).ok_or_else(|| "no sample".to_owned())
}

/// All of it.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Ablation {
    /// What measured.
    pub tool: String,
    /// When, in seconds since 1970.
    pub unix_seconds: u64,
    /// How long it took.
    pub took_seconds: f64,
    /// Where.
    pub host: Fingerprint,
    /// The template.
    pub template: String,
    /// What came of it.
    pub rows: Vec<Row>,
}

impl Ablation {
    /// Writes `ablation-ENGINE.md` and `.json` into a directory, which is made.
    ///
    /// # Errors
    /// When it cannot be written to.
    pub fn write(&self, dir: &Path) -> io::Result<()> {
        fs::create_dir_all(dir)?;
        let file = dir.join(format!("ablation-{}", self.host.engine));
        fs::write(file.with_extension("md"), self.markdown())?;
        fs::write(file.with_extension("json"), serde_json::to_string_pretty(self)? + "\n")
    }

    /// The table, for people.
    #[must_use]
    pub fn markdown(&self) -> String {
        let mut text = format!(
            "# What each mechanism is worth on {}\n\n{}, template `{}`; the run took {:.0} s. Made by `cargo xtask bench --ablate`.\n\n\
             Runs with and without a mechanism took turns; the ratio is the median of what each round gives, without over with. A mechanism stays where a figure that callers see is at least 10 % larger without it, on either engine. `network` is none: every template has it, and the question is what it costs. Absolute times are of this machine alone.\n\n\
             | mechanism | figure | on, ms | off, ms | off over on | rounds | moves it by 10 % |\n|---|---|---:|---:|---:|---:|---|\n",
            self.host.engine,
            date(self.unix_seconds),
            self.template,
            self.took_seconds
        );
        let number = |value: Option<f64>| value.map_or_else(|| "–".to_owned(), digits);
        for row in &self.rows {
            let verdict = match &row.verdict {
                Verdict::Moves => "yes".to_owned(),
                Verdict::DoesNot => "**no**".to_owned(),
                Verdict::Cheap => "costs at most 2 %".to_owned(),
                Verdict::Dear => "**costs more than 2 %**".to_owned(),
                Verdict::Unknown(reason) => {
                    format!("unknown: {}", reason.replace('\n', "; ").replace('|', "/"))
                }
            };
            text += &format!(
                "| `{}` | `{}` | {} | {} | {} | {} | {verdict} |\n",
                row.name,
                row.series,
                number(row.on),
                number(row.off),
                number(row.ratio),
                row.rounds.len()
            );
        }
        text += "\n## Machine\n\n| | |\n|---|---|\n";
        for (name, value) in self.host.rows() {
            text += &format!("| {name} | {value} |\n");
        }
        text
    }
}
