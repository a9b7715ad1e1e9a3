//! The lab with everything the tests need in it. A lab that breaks is replaced by a new one, and what ran in it
//! is run once more.
//!
//! ```text
//! empty ──boot, copy──▶ ready ──run a group──▶ ready
//!   ▲                     └──────it breaks──────┐
//!   └───────────────────────────────────────────┘
//! ```

use std::io::Write;
use std::path::Path;
use std::time::Duration;

use anyhow::Result;

use super::groups::{Filter, Group, quote};
use super::machine::{Lab, Life};
use super::stage::PROVISIONS;
use super::suite::{NETWORK, Report, told};
use crate::cache::Cache;
use crate::soak;

/// Variables that reach the tests in the lab.
const TUNING: &[&str] =
    &["REKINDLE_FAULTS", "REKINDLE_KILLS", "REKINDLE_ROUNDS", soak::MINUTES, "REKINDLE_STRESS"];
/// How often a group is tried in labs that break.
const ATTEMPTS: u32 = 2;
/// A lab in which no test ends for so long has broken without a word.
const SILENCE: Duration = Duration::from_secs(900);

/// Directories of the share: what all groups need, and what [`NETWORK`] needs besides.
pub const SUITE: &str = "suite";
pub const BESIDES: &str = "besides";

/// A lab, or the next one.
pub struct Rig<'a> {
    cache: &'a Cache,
    stage: &'a dyn Fn(&Path) -> Result<()>,
    lab: Option<Lab>,
}

impl<'a> Rig<'a> {
    /// `stage` fills the directories [`SUITE`] and [`BESIDES`] of the lab's share. Nothing is booted before the first
    /// group.
    pub fn new(cache: &'a Cache, stage: &'a dyn Fn(&Path) -> Result<()>) -> Self {
        Self { cache, stage, lab: None }
    }

    /// Runs a group. An emulated machine may break under it (docs/lab.md): then it is run again in a fresh one, and
    /// the report says so.
    pub fn run(&mut self, group: &Group, filter: &Filter, line: &mut dyn FnMut(&str)) -> Report {
        let mut breaks = Vec::new();
        for attempt in 1..=ATTEMPTS {
            match self.once(group, filter, line) {
                Ok(mut report) => {
                    report.breaks.append(&mut breaks);
                    return report;
                }
                Err(error) => {
                    self.lab = None;
                    let next = if attempt < ATTEMPTS { "it is run again" } else { "it has no result" };
                    eprintln!("lab: it broke in {}, {next}: {error:#}", group.name);
                    breaks.push(format!("{}: the lab broke, {next}: {}", group.name, error.root_cause()));
                }
            }
        }
        Report { passed: false, breaks, ..Report::default() }
    }

    fn once(&mut self, group: &Group, filter: &Filter, line: &mut dyn FnMut(&str)) -> Result<Report> {
        let lab = match &mut self.lab {
            Some(lab) => lab,
            none => {
                let lab = Lab::join(self.cache, Life::Bound)?;
                (self.stage)(&lab.share())?;
                // Off the shared directory, which is slow to read there.
                let copy = "rm -rf /room/suite && cp -r /share/suite /room/suite";
                anyhow::ensure!(
                    lab.run(copy, &mut std::io::sink(), &mut std::io::stderr())? == 0,
                    "what the tests need cannot be copied into the lab"
                );
                none.insert(lab)
            }
        };
        let share = lab.share();
        Report::forget(&share);
        // Shown when it is complete: of a lab that breaks half-way nothing is to be counted.
        let mut lines = Vec::new();
        let mut keep = |text: &str| lines.push(text.to_owned());
        let mut out = Lines { pending: Vec::new(), line: &mut keep };
        let code = lab.run_within(silence(), &script(group, filter), &mut out, &mut std::io::stderr())?;
        lines.iter().for_each(|text| line(text));
        Ok(told(code == 0, &share))
    }
}

/// A soak says nothing before its end.
fn silence() -> Duration {
    let soak = std::env::var(soak::MINUTES).ok().and_then(|minutes| minutes.parse::<f64>().ok());
    SILENCE + Duration::from_secs_f64(60.0 * soak.unwrap_or(0.0))
}

/// What runs in the lab.
fn script(group: &Group, filter: &Filter) -> String {
    let asked =
        TUNING.iter().filter_map(|name| Some(format!("{name}={}", quote(&std::env::var(name).ok()?))));
    // It fills a gigabyte of the lab's memory, so no other group has it.
    let (before, after) = if group.name == NETWORK {
        let before = format!("cp -r /share/{BESIDES}/* . && tar -xf {PROVISIONS} -C cache || exit 1; ");
        (before, "; code=$?; rm -rf cache && cp -r /share/suite/cache .; exit $code")
    } else {
        (String::new(), "")
    };
    format!(
        "cd /room/suite || exit 1; {before}\
         export REKINDLE_LAB=1 REKINDLE_ENGINE=firecracker REKINDLE_CACHE=/room/suite/cache \
         REKINDLE_FIRECRACKER=/room/suite/bin/firecracker REKINDLE_BIN=/room/suite/bin/rekindle \
         REKINDLE_SKIP_FILE=/share/skips REKINDLE_ENGINE_FILE=/share/engines TMPDIR=/room {}; {}{after}",
        asked.collect::<Vec<_>>().join(" "),
        group.command(Some("./tests"), filter)
    )
}

/// Cuts output into lines.
struct Lines<'a> {
    pending: Vec<u8>,
    line: &'a mut dyn FnMut(&str),
}

impl Write for Lines<'_> {
    fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
        self.pending.extend_from_slice(bytes);
        while let Some(end) = self.pending.iter().position(|byte| *byte == b'\n') {
            let rest = self.pending.split_off(end + 1);
            let text = std::mem::replace(&mut self.pending, rest);
            (self.line)(String::from_utf8_lossy(&text).trim_end());
        }
        Ok(bytes.len())
    }

    fn flush(&mut self) -> std::io::Result<()> {
        Ok(())
    }
}
