//! `cargo xtask bench`: builds what is measured, then measures it.
//!
//! The measuring is done by the program of `benches/`. With Firecracker and no usable KVM it runs in the lab,
//! and its reports are copied out.

use std::path::PathBuf;
use std::process::{Command, ExitCode};

use anyhow::{Context, Result, bail, ensure};

use crate::cache::Cache;
use crate::{agent, kernel, lab, repo, rootfs, setup};

/// What to measure.
#[derive(clap::Args)]
pub struct Args {
    /// auto, firecracker or qemu; Firecracker runs in the lab where this machine's KVM is not usable
    #[arg(long, default_value = "auto")]
    engine: String,
    /// The template whose snapshot is measured; minimal when left out, with --ablate python-node
    #[arg(long)]
    template: Option<String>,
    /// What to measure, everything when left out; docs/guides/benchmarking.md lists them
    #[arg(long, value_delimiter = ',')]
    scenario: Vec<String>,
    /// Samples of each scenario; a promise is judged by 30 or more
    #[arg(short, long = "samples", default_value_t = 30)]
    n: usize,
    /// How many starts at once, for `burst`
    #[arg(long, value_delimiter = ',')]
    concurrency: Vec<usize>,
    /// Where the reports go; target/bench/ENGINE-TEMPLATE when left out, with --ablate benches/results
    #[arg(long)]
    out: Option<PathBuf>,
    /// Compare the ratios with benches/baseline.toml and fail when one got worse
    #[arg(long)]
    check: bool,
    /// Measure what every mechanism that only saves time is worth, on and off in turns, and write the table
    #[arg(long, conflicts_with_all = ["scenario", "check"])]
    ablate: bool,
    /// With --ablate, only these mechanisms
    #[arg(long, value_delimiter = ',', requires = "ablate")]
    only: Vec<String>,
}

/// Builds and measures.
pub fn run(args: &Args) -> Result<ExitCode> {
    setup::packages()?;
    if let Err(error) = setup::compared() {
        eprintln!("bench: what sandboxes are compared with is left out: {error:#}");
    }
    let cache = Cache::open()?;
    let programs = agent::build()?;
    kernel::build(&cache)?;
    rootfs::build(&cache, args.template(), &programs)?;
    let program = build()?;
    let out = args.out.clone().unwrap_or_else(|| args.usual_out());
    if args.engine == "firecracker" {
        match lab::place(&cache) {
            lab::Place::Here => {}
            lab::Place::Lab => return lab::bench(&cache, &program, args.template(), &args.words(), &out),
            lab::Place::Nowhere { reason } => bail!("{reason}"),
        }
    }
    let mut command = Command::new(&program);
    command.args(args.words()).arg("--out").arg(&out);
    command.arg("--tree").arg(rootfs::tree(&cache, args.template()));
    command.arg("--baseline").arg(repo::root().join("benches/baseline.toml"));
    command.env("REKINDLE_CACHE", cache.root());
    if let Some(firecracker) = setup::find_firecracker(&cache) {
        command.env("REKINDLE_FIRECRACKER", firecracker);
    }
    let status = command.status().with_context(|| format!("cannot start {}", program.display()))?;
    Ok(if status.success() { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

impl Args {
    fn template(&self) -> &str {
        // The one with interpreters has all that can be switched off.
        self.template.as_deref().unwrap_or(if self.ablate { "python-node" } else { "minimal" })
    }

    fn usual_out(&self) -> PathBuf {
        if self.ablate {
            return repo::root().join("benches/results");
        }
        repo::target_dir().join("bench").join(format!("{}-{}", self.engine, self.template()))
    }

    /// The words for the program, without places, which differ in the lab.
    fn words(&self) -> Vec<String> {
        let mut words = vec!["--engine".to_owned(), self.engine.clone()];
        let mut pair = |name: &str, value: String| words.extend([name.to_owned(), value]);
        pair("--template", self.template().to_owned());
        pair("--samples", self.n.to_string());
        for scenario in &self.scenario {
            pair("--scenario", scenario.clone());
        }
        if !self.concurrency.is_empty() {
            let list: Vec<String> = self.concurrency.iter().map(ToString::to_string).collect();
            pair("--concurrency", list.join(","));
        }
        if self.check {
            words.push("--check".to_owned());
        }
        if self.ablate {
            words.push("--ablate".to_owned());
            words.extend(self.only.iter().flat_map(|name| ["--only".to_owned(), name.clone()]));
        }
        words
    }
}

/// The program, optimised as the supervisor is for its users.
fn build() -> Result<PathBuf> {
    let cargo = std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into());
    let status = Command::new(cargo)
        .current_dir(repo::root())
        .args(["build", "--release", "--package", "rekindle-bench"])
        .status()
        .context("cannot start cargo")?;
    ensure!(status.success(), "the benchmarks do not build");
    Ok(repo::target_dir().join("release/rekindle-bench"))
}
