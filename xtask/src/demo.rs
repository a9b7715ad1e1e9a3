//! `cargo xtask demo`: from a fresh clone to a table on the screen.
//!
//! Builds what is missing, then drives the real `rekindle` binary as a person would and shows what it
//! reported about itself. Every figure comes from this run; what was not measured is not shown.

use std::fs;
use std::io::IsTerminal;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};
use std::time::Instant;

use anyhow::{Context, Result, bail, ensure};
use serde_json::Value;

use crate::cache::Cache;
use crate::{agent, kernel, repo, rootfs, setup};

/// The template that is built fastest; `python-node` is used the same way.
const TEMPLATE: &str = "minimal";
const COLD_STARTS: usize = 3;
const RESTORES: usize = 10;

/// Takes memory that it really uses, until there is none.
const EAT_MEMORY: &str = "x = []\nwhile True: x.append(b'x' * (1 << 20))";

/// Builds, runs and shows.
pub fn run() -> Result<()> {
    setup::packages()?;
    let cache = Cache::open()?;
    let programs = agent::build()?;
    kernel::build(&cache)?;
    rootfs::build(&cache, TEMPLATE, &programs)?;
    let rekindle = Rekindle::build()?;

    let begun = Instant::now();
    rekindle.call(&["template", "build", TEMPLATE])?;
    let built = begun.elapsed();
    let mut table = Table::default();
    table.row("template", &format!("{TEMPLATE}, built or found in {:.1} s", built.as_secs_f64()));

    let cold = rekindle.starts(COLD_STARTS, &["--cold"])?;
    let warm = rekindle.starts(RESTORES, &[])?;
    table.row("engine", &warm.engine);
    table.row(
        "cold boot",
        &format!("{:.0} ms to the agent's first answer (median of {COLD_STARTS})", cold.median),
    );
    table
        .row("restore", &format!("{:.0} ms to the agent's first answer (median of {RESTORES})", warm.median));
    table.row("ratio", &format!("{:.1} times faster", cold.median / warm.median));

    table.row(
        "python",
        &rekindle.output(&["--python", "import sys; print('Python', sys.version.split()[0])"])?,
    );
    table.row("node", &rekindle.output(&["--node", "console.log('Node', process.version)"])?);
    table.row("a file in and out", &rekindle.round_trip()?);
    table.row("long output", &rekindle.long_output()?);
    table.row("no time left", &rekindle.ends(&["--timeout", "2", "--sh", "sleep 60"], 124)?);
    table.row("no memory left", &rekindle.ends(&["--memory", "64M", "--python", EAT_MEMORY], 137)?);
    table.row("two clones", &rekindle.strangers()?);
    println!("\n{}", table.render());
    println!(
        "Try it yourself:\n  {} run --template {TEMPLATE} --python 'print(6 * 7)'",
        rekindle.program.display()
    );
    Ok(())
}

/// Starts as one scenario measured them.
struct Starts {
    median: f64,
    engine: String,
}

/// The built program.
struct Rekindle {
    program: PathBuf,
}

impl Rekindle {
    fn build() -> Result<Self> {
        let cargo = std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into());
        let status = Command::new(cargo)
            .current_dir(repo::root())
            .args(["build", "--package", "rekindle", "--release"])
            .status()
            .context("cannot start cargo")?;
        ensure!(status.success(), "rekindle does not build");
        Ok(Self { program: repo::target_dir().join("release/rekindle") })
    }

    /// Runs one command; failure is an error with what it said.
    fn call(&self, args: &[&str]) -> Result<Output> {
        let output = self.command(args).output().context("cannot start rekindle")?;
        self.check(output, args)
    }

    fn command(&self, args: &[&str]) -> Command {
        let mut command = Command::new(&self.program);
        command.args(args).stdin(std::process::Stdio::null());
        command
    }

    fn check(&self, output: Output, args: &[&str]) -> Result<Output> {
        if output.status.success() {
            return Ok(output);
        }
        bail!("rekindle {}: {}", args.join(" "), String::from_utf8_lossy(&output.stderr).trim())
    }

    /// One sandbox; what it reported as JSON.
    fn run(&self, args: &[&str]) -> Result<Value> {
        let all = [&["run", "--template", TEMPLATE, "--json"], args].concat();
        let output = self.command(&all).output().context("cannot start rekindle")?;
        let said = String::from_utf8_lossy(&output.stderr).into_owned();
        serde_json::from_slice(&output.stdout).with_context(|| format!("rekindle {}: {said}", all.join(" ")))
    }

    fn starts(&self, count: usize, flags: &[&str]) -> Result<Starts> {
        let mut times = Vec::new();
        let mut engine = String::new();
        for number in 1..=count {
            if std::io::stderr().is_terminal() {
                eprint!(
                    "\r{} {number} of {count}   ",
                    if flags.is_empty() { "restore" } else { "cold boot" }
                );
            }
            let report = self.run(&[flags, &["--", "true"]].concat())?;
            engine = report["engine"].as_str().unwrap_or("unknown").to_owned();
            times.push(first_answer(&report)?);
        }
        if std::io::stderr().is_terminal() {
            eprint!("\r{:40}\r", "");
        }
        times.sort_by(f64::total_cmp);
        Ok(Starts { median: times[times.len() / 2], engine })
    }

    fn output(&self, args: &[&str]) -> Result<String> {
        let report = self.run(args)?;
        ensure!(report["outcome"]["code"] == 0, "{args:?} ended as {}", report["outcome"]);
        let text = report["stdout"]["text"].as_str().unwrap_or_default().trim();
        let cpu =
            report["usage"]["cpu_time"].as_str().and_then(|time| time.strip_suffix('s')?.parse::<f64>().ok());
        let cpu =
            cpu.with_context(|| format!("the report does not say what it took: {}", report["usage"]))?;
        Ok(format!("{text} ({:.0} ms of CPU in its own sandbox)", cpu * 1000.0))
    }

    fn round_trip(&self) -> Result<String> {
        let dir = tempfile::tempdir().context("no temporary directory")?;
        let (sent, received) = (dir.path().join("sent"), dir.path().join("received"));
        let bytes: Vec<u8> = (0..=255).collect::<Vec<u8>>().repeat(4096);
        fs::write(&sent, &bytes)?;
        let (put, get) = (pair(&sent, "data"), format!("copy:{}", received.display()));
        let report = self.run(&["--put", &put, "--get", &get, "--sh", "cp data copy"])?;
        ensure!(report["outcome"]["code"] == 0, "copying ended as {}", report["outcome"]);
        ensure!(fs::read(&received)? == bytes, "the file came back changed");
        Ok(format!("{} KiB with all 256 byte values, identical", bytes.len() / 1024))
    }

    fn long_output(&self) -> Result<String> {
        let report = self.run(&["--sh", "yes 0123456789 | head -c 20000000"])?;
        let stdout = &report["stdout"];
        let shown = stdout["text"].as_str().unwrap_or_default().chars().count();
        ensure!(stdout["truncated"] == true && shown <= 4000, "20 MB were not shortened");
        Ok(format!("{} characters printed, {shown} returned, head and tail kept", stdout["total_chars"]))
    }

    /// A program that must end with this exit code of `rekindle run`.
    fn ends(&self, args: &[&str], code: i32) -> Result<String> {
        let all = [&["run", "--template", TEMPLATE], args].concat();
        let output = self.command(&all).output().context("cannot start rekindle")?;
        let said = String::from_utf8_lossy(&output.stderr);
        ensure!(
            output.status.code() == Some(code),
            "expected code {code}, got {:?}: {said}",
            output.status.code()
        );
        let last = said.lines().last().unwrap_or_default().trim_start_matches("rekindle: ");
        Ok(format!("{last} (exit code {code})"))
    }

    fn strangers(&self) -> Result<String> {
        let ask = || -> Result<String> {
            let code = "import random, uuid; print(random.random(), uuid.uuid4())";
            let report = self.run(&["--python", code])?;
            Ok(report["stdout"]["text"].as_str().unwrap_or_default().to_owned())
        };
        ensure!(ask()? != ask()?, "two clones drew the same random numbers");
        Ok("share no randomness".to_owned())
    }
}

/// Milliseconds from the start of the machine to the agent's answer to hello.
fn first_answer(report: &Value) -> Result<f64> {
    let stages = report["timings"]["stages"].as_array().context("the report has no stages")?;
    let mut seconds = 0.0;
    let mut counting = false;
    for stage in stages {
        let name = stage["name"].as_str().unwrap_or_default();
        counting |= name == "reserve";
        if counting {
            let took = stage["duration"].as_str().and_then(|took| took.strip_suffix('s')?.parse().ok());
            seconds += took.unwrap_or(0.0);
        }
        if name == "hello" {
            return Ok(seconds * 1000.0);
        }
    }
    bail!("the report does not say when the agent answered")
}

fn pair(local: &Path, guest: &str) -> String {
    format!("{}:{guest}", local.display())
}

/// Two columns.
#[derive(Default)]
struct Table {
    rows: Vec<(String, String)>,
}

impl Table {
    fn row(&mut self, name: &str, value: &str) {
        eprintln!("{name}: {value}");
        self.rows.push((name.to_owned(), value.to_owned()));
    }

    fn render(&self) -> String {
        let width = self.rows.iter().map(|(name, _)| name.len()).max().unwrap_or_default();
        let line = "-".repeat(width + 62);
        let rows: String =
            self.rows.iter().map(|(name, value)| format!("{name:<width$}  {value}\n")).collect();
        format!("{line}\n{rows}{line}")
    }
}
