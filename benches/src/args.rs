//! What is asked for on the command line. `cargo xtask bench` passes its own words on to here.

use std::path::PathBuf;

use clap::Parser;
use rekindle::config::TemplateName;
use rekindle::engine::detect::EngineChoice;

use crate::scenario::Scenario;

/// Fewest samples that a ratio promised in SPECIFICATION.md may rest on.
pub const ENOUGH: usize = 30;

/// The command line.
#[derive(Debug, Clone, Parser)]
#[command(name = "rekindle-bench", about = "Measures Rekindle on this machine", version)]
pub struct Args {
    /// auto, firecracker or qemu
    #[arg(long, default_value = "auto")]
    pub engine: EngineChoice,
    /// The template whose snapshot is measured
    #[arg(long, default_value = "minimal")]
    pub template: TemplateName,
    /// What to measure; everything when not given. Can be repeated, or a list with commas
    #[arg(long = "scenario", value_enum, value_delimiter = ',')]
    pub scenarios: Vec<Scenario>,
    /// Samples of each scenario
    #[arg(short, long = "samples", default_value_t = ENOUGH)]
    pub n: usize,
    /// How many starts at once, for `burst`
    #[arg(long, value_delimiter = ',', default_values_t = [1, 2, 4, 8])]
    pub concurrency: Vec<usize>,
    /// Where the reports go
    #[arg(long, default_value = "target/bench")]
    pub out: PathBuf,
    /// A tree of the template's root file system, for a container and a confined process
    #[arg(long)]
    pub tree: Option<PathBuf>,
    /// Compare the ratios of this run with the committed baseline, and fail when one got worse
    #[arg(long)]
    pub check: bool,
    /// Measure what every mechanism that only saves time is worth, on and off in turns; the scenarios are given
    #[arg(long, conflicts_with_all = ["scenarios", "check"])]
    pub ablate: bool,
    /// With --ablate, only these mechanisms
    #[arg(long, value_delimiter = ',', requires = "ablate")]
    pub only: Vec<String>,
    /// Measure a template whose agent was told this, which no caller's is; --ablate asks for it
    #[arg(long, hide = true)]
    pub agent_word: Option<String>,
    /// The baseline
    #[arg(long, default_value = "benches/baseline.toml")]
    pub baseline: PathBuf,
}

impl Args {
    /// Whether a scenario is asked for.
    #[must_use]
    pub fn wants(&self, scenario: Scenario) -> bool {
        self.scenarios.is_empty() || self.scenarios.contains(&scenario)
    }
}
