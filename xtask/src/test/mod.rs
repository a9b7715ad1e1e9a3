//! `cargo xtask test`: every check and test, ending in one line of counts.
//!
//! Formatting, clippy and tidy count as one test each. A test that could not run on this
//! machine says so in the skip file; it is counted as skipped, with its reason, and not
//! as passed. A test with a virtual machine also says which engine ran it.

mod packages;
mod prepare;
mod production;
mod tally;
mod timing;
mod toolchain;

use std::ffi::OsString;
use std::io::{BufRead, BufReader};
use std::process::Stdio;

use anyhow::{Context, Result, bail};

use crate::{lab, tidy};
use packages::packages;
use prepare::prepare;
use production::Production;
use tally::{Tally, Where, outcome};
use timing::Timing;
use toolchain::{cargo, check};

/// What to run.
#[derive(clap::Args, Default)]
pub struct Args {
    /// Build no kernel and no images; tests that need them report a skip
    #[arg(long)]
    fast: bool,
    /// Arguments for the test programs, such as part of a test's name
    #[arg(last = true)]
    filter: Vec<String>,
}

/// Runs everything; an error means that something failed.
pub fn run(args: &Args) -> Result<()> {
    let mut tally = Tally::default();
    let mut timing = Timing::default();
    // With a filter a person is after one test, not after the state of the workspace.
    if args.filter.is_empty() {
        let clippy = &["--workspace", "--all-targets", "--quiet", "--", "-D", "warnings"];
        timing.measure("cargo fmt", || check(&mut tally, "fmt", &["--all", "--check"]));
        timing.measure("cargo clippy", || check(&mut tally, "clippy", clippy));
        timing.measure("cargo xtask tidy", || tally.record("cargo xtask tidy", outcome(&tidy::run())));
    }
    let mut variables: Vec<(&str, OsString)> = Vec::new();
    let prepared = timing.measure("preparation", || outcome(&prepare(args, &mut variables)));
    tally.record("preparation", prepared);

    let production = Production::choose(args);
    let told = tempfile::tempdir().context("cannot create a directory for what tests tell")?;
    let (skips, engines) = (told.path().join("skips"), told.path().join("engines"));
    variables.push(("REKINDLE_SKIP_FILE", skips.clone().into()));
    variables.push(("REKINDLE_ENGINE_FILE", engines.clone().into()));
    // Apart from running them, because it shows its progress on a terminal; what does not build is told below.
    timing.measure("building the tests", || cargo(&["test", "--workspace", "--no-run"]).status())?;
    let mut command = cargo(&["test", "--workspace", "--no-fail-fast", "--"]);
    let elsewhere = matches!(production, Production::Run(_)).then_some(["--skip", lab::MODULE]);
    command.args(&args.filter).args(elsewhere.into_iter().flatten());
    command.envs(variables).stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut child = command.spawn().context("cannot start cargo test")?;
    let output = child.stdout.take().context("cargo test has no output")?;
    let programs = timing::follow(child.stderr.take().context("cargo test has no error output")?);
    for line in BufReader::new(output).split(b'\n') {
        let line = line.context("cannot read the output of cargo test")?;
        // A program under test may print anything.
        let line = String::from_utf8_lossy(&line);
        println!("{line}");
        tally.read(&line);
        timing.read(&line, &programs);
    }
    tally.end(child.wait()?.success());
    tally.skip(&std::fs::read_to_string(skips).unwrap_or_default());
    tally.ran_on(&std::fs::read_to_string(engines).unwrap_or_default());
    match production {
        Production::Run(place) => {
            eprintln!(
                "==> the tests on Firecracker{}",
                if place == Where::Lab { ", in the lab" } else { "" }
            );
            let tests = || outcome(&production::run(&args.filter, place, &mut tally));
            let ran = timing.measure("the tests on Firecracker", tests);
            tally.record("the tests on Firecracker", ran);
        }
        Production::Skip(reason) => tally.unavailable("the tests on Firecracker", &reason),
        Production::NotAsked => {}
    }

    // With a filter a person is after one test.
    if args.filter.is_empty() {
        timing.measure("the packages", || packages(args, &mut tally));
    }

    print!("{}{}", timing.table(), tally.details());
    println!("{}", tally.line());
    if tally.failed() {
        bail!("tests failed");
    }
    Ok(())
}
