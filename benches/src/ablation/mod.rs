//! `--ablate`: every mechanism that only saves time, on and off, and what that does to the figures it claims to move.
//!
//! ```text
//! case ──▶ round: a short run of this program as it is ─┐  (every other round the other way round)
//!             └── one more with REKINDLE_TUNING=-name ──┴──▶ two records ──▶ a row for each figure
//! ```
//!
//! A switch counts for a whole process, so each side is a process. Templates that differ in the guest's switches are
//! different snapshots in one store; the one without is removed when its case is done.

mod cases;
mod result;

use std::env;
use std::fs;
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use anyhow::{Context, Result, bail};
use rekindle::config::Dirs;
use rekindle::engine::EngineKind;
use rekindle::engine::detect;
use rekindle::store::Store;
use rekindle::tuning::{Switches, VARIABLE};

pub use self::cases::{CASES, Case, Claim, Off};
pub use self::result::{Ablation, Measured, Round, Row, Verdict, measured};
use crate::args::Args;
use crate::bed;
use crate::progress::Progress;
use crate::report::Report;

/// Samples of each scenario in one run: few, so that the two sides of a round are close together.
const SAMPLES: usize = 3;

/// Measures every case and writes the table and its data to `args.out`.
///
/// # Errors
/// When nothing can be measured here, or the results cannot be written.
pub fn everything(args: &Args) -> Result<()> {
    let begun = Instant::now();
    let progress = Progress::new();
    let engine = detect::detect(args.engine, None)?.0.identity().engine;
    let scratch = tempfile::tempdir()?;
    let (mut rows, mut last, mut table) = (Vec::new(), None, None);
    if let Some(name) = args.only.iter().find(|name| CASES.iter().all(|case| case.name != **name)) {
        let known: Vec<&str> = CASES.iter().map(|case| case.name).collect();
        bail!("there is no mechanism {name:?} to measure\nhint: known are {}", known.join(", "));
    }
    for case in CASES {
        if !args.only.is_empty() && args.only.iter().all(|name| name != case.name) {
            continue;
        }
        if case.engine.is_some_and(|only| only != engine) {
            progress.note(&format!("{}: {engine} does not have it", case.name));
            continue;
        }
        let mut runs = Runs { args, engine, case, scratch: scratch.path(), last: &mut last };
        rows.extend(runs.measure(&progress));
        if let Err(error) = forget_template(args, &case) {
            progress.note(&format!("a template of {} is left behind: {error:#}", case.name));
        }
        // After every case: a run takes hours and may be ended by hand.
        if let Some(report) = &last {
            let ablation = Ablation {
                tool: concat!("rekindle-bench ", env!("CARGO_PKG_VERSION")).to_owned(),
                unix_seconds: SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |since| since.as_secs()),
                took_seconds: begun.elapsed().as_secs_f64(),
                host: report.host.clone(),
                template: args.template.to_string(),
                rows: rows.clone(),
            };
            ablation.write(&args.out).with_context(|| format!("cannot write to {}", args.out.display()))?;
            table = Some(ablation.markdown());
        }
    }
    progress.done();
    println!("{}", table.context("nothing could be measured")?);
    eprintln!("results: {}/ablation-{engine}.{{md,json}}", args.out.display());
    Ok(())
}

/// The runs of one case.
struct Runs<'a> {
    args: &'a Args,
    engine: EngineKind,
    case: Case,
    scratch: &'a Path,
    last: &'a mut Option<Report>,
}

impl Runs<'_> {
    /// A row for each figure. A run that fails ends the case, and its rows say why.
    fn measure(&mut self, progress: &Progress) -> Vec<Row> {
        let rounds = self.args.n.div_ceil(SAMPLES).max(1);
        let mut pairs = vec![(Vec::new(), None); self.case.figures.len()];
        for round in 1..=rounds {
            let run = |on: bool| {
                let side = if on { "on" } else { "off" };
                progress.say(&format!("{} {side}: round {round} of {rounds}", self.case.name));
                self.run(on)
            };
            let (on, off) = match self.round(round % 2 == 1, run) {
                Ok(both) => both,
                Err(error) => {
                    progress.note(&format!("{error:#}"));
                    pairs.iter_mut().for_each(|(_, failure)| *failure = Some(format!("{error:#}")));
                    break;
                }
            };
            for (figure, (measured_rounds, failure)) in self.case.figures.iter().zip(&mut pairs) {
                let without = match self.case.off {
                    Off::Switch | Off::Word(_) => figure.series,
                    Off::Beside(other) => other.series,
                };
                match pair(measured(&on.record, figure.series), measured(&off.record, without)) {
                    Ok(pair) => measured_rounds.push(pair),
                    Err(reason) => *failure = Some(reason),
                }
            }
            *self.last = Some(on);
        }
        let rows = self.case.figures.iter().zip(pairs);
        let row = match self.case.off {
            Off::Switch | Off::Beside(_) => Row::of,
            Off::Word(_) => Row::of_what_it_costs,
        };
        rows.map(|(figure, (rounds, failure))| row(self.case.name, figure.series, rounds, failure)).collect()
    }

    /// Both sides of one round; which goes first alternates.
    fn round(&self, on_first: bool, run: impl Fn(bool) -> Result<Report>) -> Result<(Report, Report)> {
        if let Off::Beside(_) = self.case.off {
            let both = run(true)?;
            return Ok((both.clone(), both));
        }
        let first = run(on_first)?;
        let second = run(!on_first)?;
        Ok(if on_first { (first, second) } else { (second, first) })
    }

    /// One short run of this program.
    fn run(&self, on: bool) -> Result<Report> {
        let mut command = Command::new(env::current_exe()?);
        command.args(["--engine", &self.engine.to_string(), "--template", self.args.template.as_str()]);
        command.args(["--samples", &SAMPLES.to_string()]).arg("--out").arg(self.scratch);
        for scenario in self.case.scenarios() {
            command.args(["--scenario", &scenario.to_string()]);
        }
        command.env_remove(VARIABLE).stdin(Stdio::null());
        match self.case.off {
            Off::Switch if !on => drop(command.env(VARIABLE, format!("-{}", self.case.name))),
            Off::Word(word) if !on => drop(command.args(["--agent-word", word])),
            Off::Switch | Off::Beside(_) | Off::Word(_) => {}
        }
        let output = command.output().context("this program cannot be started again")?;
        if !output.status.success() {
            bail!("a run for {} failed:\n{}", self.case.name, String::from_utf8_lossy(&output.stderr));
        }
        let report = fs::read(self.scratch.join("report.json")).context("a run left no report")?;
        Ok(serde_json::from_slice(&report)?)
    }
}

fn pair(on: Measured, off: Measured) -> Result<Round, String> {
    let ((on, samples), (off, others)) = (on?, off?);
    Ok(Round { on, off, samples: samples.min(others) })
}

/// Removes the snapshot that was built without a mechanism of the guest.
fn forget_template(args: &Args, case: &Case) -> Result<()> {
    let recipe = match case.off {
        Off::Beside(_) => return Ok(()),
        Off::Word(word) => bed::recipe_with(&args.template, Some(word))?,
        Off::Switch => {
            let argument = Switches::parse(&format!("-{}", case.name))?.guest_argument();
            let Some(argument) = argument else { return Ok(()) };
            let mut recipe = bed::recipe(&args.template)?;
            recipe.kernel_args.push(argument);
            recipe
        }
    };
    let digest = recipe.digest();
    let keep = |manifest: &rekindle::store::Manifest| manifest.inputs.recipe != digest;
    Store::open(&Dirs::find()?.data)?.collect(Duration::ZERO, keep)?;
    Ok(())
}

#[cfg(test)]
mod tests;
