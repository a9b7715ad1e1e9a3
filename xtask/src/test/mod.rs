//! `cargo xtask test`: every check and test, ending in one line of counts.
//!
//! Formatting, clippy and tidy count as one test each. A test that could not run on this
//! machine says so in the skip file; it is counted as skipped, with its reason, and not
//! as passed. A test with a virtual machine also says which engine ran it.

mod tally;

use std::ffi::OsString;
use std::io::{BufRead, BufReader};
use std::process::{Command, Stdio};

use anyhow::{Context, Result, bail};

use crate::cache::Cache;
use crate::{agent, dist, hint, kernel, lab, repo, rootfs, setup, tidy};
use tally::{Tally, Where};

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
    // With a filter a person is after one test, not after the state of the workspace.
    if args.filter.is_empty() {
        check(&mut tally, "fmt", &["--all", "--check"]);
        check(&mut tally, "clippy", &["--workspace", "--all-targets", "--quiet", "--", "-D", "warnings"]);
        tally.record("cargo xtask tidy", outcome(&tidy::run()));
    }
    let mut variables: Vec<(&str, OsString)> = Vec::new();
    tally.record("preparation", outcome(&prepare(args, &mut variables)));

    let production = Production::choose(args);
    let told = tempfile::tempdir().context("cannot create a directory for what tests tell")?;
    let (skips, engines) = (told.path().join("skips"), told.path().join("engines"));
    variables.push(("REKINDLE_SKIP_FILE", skips.clone().into()));
    variables.push(("REKINDLE_ENGINE_FILE", engines.clone().into()));
    let mut command = cargo(&["test", "--workspace", "--no-fail-fast", "--"]);
    let elsewhere = matches!(production, Production::Run(_)).then_some(["--skip", lab::MODULE]);
    command.args(&args.filter).args(elsewhere.into_iter().flatten());
    command.envs(variables).stdout(Stdio::piped());
    let mut child = command.spawn().context("cannot start cargo test")?;
    let output = child.stdout.take().context("cargo test has no output")?;
    for line in BufReader::new(output).split(b'\n') {
        let line = line.context("cannot read the output of cargo test")?;
        // A program under test may print anything.
        let line = String::from_utf8_lossy(&line);
        println!("{line}");
        tally.read(&line);
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
            let ran = outcome(&production_tests(&args.filter, place, &mut tally));
            tally.record("the tests on Firecracker", ran);
        }
        Production::Skip(reason) => tally.unavailable("the tests on Firecracker", &reason),
        Production::NotAsked => {}
    }

    // With a filter a person is after one test.
    if args.filter.is_empty() {
        packages(args, &mut tally);
    }

    print!("{}", tally.details());
    println!("{}", tally.line());
    if tally.failed() {
        bail!("tests failed");
    }
    Ok(())
}

/// What the tests need: packages, agent, and unless `--fast` kernel, images, Firecracker.
fn prepare(args: &Args, variables: &mut Vec<(&str, OsString)>) -> Result<()> {
    setup::packages()?;
    let programs = agent::build()?;
    variables.push(("REKINDLE_AGENT", programs.agent.clone().into()));
    let cache = Cache::open()?;
    variables.push(("REKINDLE_CACHE", cache.root().into()));
    if args.fast {
        return Ok(());
    }
    setup::browser()?;
    let firecracker = setup::report_firecracker(&cache, false)?;
    eprintln!("firecracker: {firecracker}");
    if let Some(path) = setup::find_firecracker(&cache) {
        variables.push(("REKINDLE_FIRECRACKER", path.into()));
    }
    kernel::build(&cache)?;
    for name in rootfs::wanted(&cache)? {
        rootfs::build(&cache, &name, &programs)?;
    }
    Ok(())
}

/// Makes the packages, goes through their life on a fresh Debian, and starts their unit on Firecracker.
fn packages(args: &Args, tally: &mut Tally) {
    const LIFE: &str = "the packages on an empty Debian 12";
    const UNIT: &str = "the package's unit under systemd, on Firecracker";
    let fast = args.fast.then_some("--fast leaves them out");
    let life = fast.or_else(dist::install_obstacle).map(str::to_owned);
    let unit = fast.map(str::to_owned).or_else(unit_obstacle);
    let mut made = None;
    for (name, obstacle) in [(LIFE, life), (UNIT, unit)] {
        if let Some(reason) = obstacle {
            tally.unavailable(name, &reason);
            continue;
        }
        eprintln!("==> {name}");
        let mut check = || {
            let cache = Cache::open()?;
            if made.is_none() {
                let dist = dist::build(&cache)?;
                dist::check_packing(&cache, &dist)?;
                made = Some(dist);
            }
            let dist = made.as_ref().context("there are no packages")?;
            if name == LIFE { dist::check_install(&cache, dist) } else { lab::package(&cache, &dist.package) }
        };
        tally.record(name, outcome(&check()));
    }
}

/// Why the package's unit cannot be tried: that takes a machine that may be changed.
fn unit_obstacle() -> Option<String> {
    if !lab::everything() {
        return Some(format!("it takes minutes; {}=1 asks for it", lab::EVERYTHING));
    }
    match Cache::open().map(|cache| lab::place(&cache)) {
        Ok(lab::Place::Lab) => None,
        Ok(lab::Place::Here) => {
            Some("it is installed in the lab only, and this machine needs none".to_owned())
        }
        Ok(lab::Place::Nowhere { reason }) => Some(reason),
        Err(error) => Some(error.to_string()),
    }
}

/// What happens with the tests on Firecracker: the engine's own, and the end-to-end suite, which cargo's run
/// of the workspace has on QEMU.
enum Production {
    Run(Where),
    /// Nowhere, and why.
    Skip(String),
    NotAsked,
}

impl Production {
    fn choose(args: &Args) -> Self {
        // With a filter a person is after one test; `cargo xtask lab test` takes filters of its own.
        let asked =
            args.filter.is_empty() || args.filter.iter().any(|word| lab::MODULE.contains(word.as_str()));
        if !asked {
            return Self::NotAsked;
        }
        if args.fast {
            return Self::Skip("--fast leaves them out".to_owned());
        }
        match Cache::open().map(|cache| lab::place(&cache)) {
            Ok(lab::Place::Here) => Self::Run(Where::Here),
            Ok(lab::Place::Lab) => Self::Run(Where::Lab),
            Ok(lab::Place::Nowhere { reason }) => Self::Skip(reason),
            Err(error) => Self::Skip(error.to_string()),
        }
    }
}

fn production_tests(filter: &[String], place: Where, tally: &mut Tally) -> Result<()> {
    tally.at(place);
    let report = lab::test(&Cache::open()?, filter, &mut |line| {
        println!("{line}");
        tally.read(line);
    })?;
    tally.skip(&report.skips);
    tally.ran_on(&report.engines);
    for line in &report.breaks {
        println!("broken: {line}");
    }
    tally.end(report.passed);
    Ok(())
}

fn cargo(args: &[&str]) -> Command {
    let mut command = Command::new(std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into()));
    command.current_dir(repo::root()).args(args);
    // What `cargo run` set for this program would make the workspace build anew.
    for (name, _) in std::env::vars_os() {
        let text = name.to_string_lossy();
        if text.starts_with("CARGO_PKG_") || text.starts_with("CARGO_MANIFEST_") {
            command.env_remove(&name);
        }
    }
    command
}

/// Runs a cargo command that comes as a component of the toolchain.
fn check(tally: &mut Tally, verb: &str, args: &[&str]) {
    let name = format!("cargo {verb}");
    eprintln!("==> {name}");
    if !component(verb) {
        tally.unavailable(&name, "this toolchain does not have it and rustup cannot add it");
        return;
    }
    let passed = cargo(&[verb]).args(args).status().is_ok_and(|status| status.success());
    tally.record(&name, passed);
}

/// Whether the toolchain has this command, after trying to add it.
fn component(verb: &str) -> bool {
    let there = || cargo(&[verb, "--version"]).output().is_ok_and(|output| output.status.success());
    if there() {
        return true;
    }
    let package = if verb == "fmt" { "rustfmt" } else { verb };
    let _ = Command::new("rustup").current_dir(repo::root()).args(["component", "add", package]).status();
    there()
}

fn outcome(result: &Result<()>) -> bool {
    if let Err(error) = result {
        eprint!("{}", hint::render(error));
    }
    result.is_ok()
}
