//! The tests on Firecracker, where they can run: on this machine's KVM, else in the lab.
//!
//! These are the engine's own tests and the end-to-end suite, which also runs on QEMU. `groups` says which run
//! together, `rig` runs them in the lab.

use std::ffi::OsString;
use std::fs;
use std::io::{BufRead, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use anyhow::{Context, Result, ensure};
use nix::unistd::geteuid;

use super::groups::{self, Filter};
use super::rig::{BESIDES, Rig, SUITE};
use super::stage::Stage;
use crate::cache::Cache;
use crate::hint::Hint;
use crate::{repo, setup};

/// The engine's own tests are in a module of this name.
pub const MODULE: &str = "firecracker_on_kvm::";
/// The programs and, of each, the tests.
const PROGRAMS: &[Program] = &[
    Program { test: "engine_contract", module: MODULE },
    Program { test: "sandbox", module: "" },
    Program { test: "service", module: "" },
];
/// Runs the end-to-end suite in the lab too, which takes an hour there, and the package's unit.
pub const EVERYTHING: &str = "REKINDLE_LAB_E2E";
/// The image beside `minimal` that tests of the end-to-end suite use.
const BIG: &str = "python-node";
/// The tests that need an image which is built on demand, and what a network has.
pub(super) const NETWORK: &str = "service::network";
const ON_DEMAND: &str = "developer";
/// Fetches what the network has.
const PROVISIONS: &str = "rekindle-provisions";
/// The command line, which the end-to-end suite runs.
const COMMAND: &str = "rekindle";
/// What the tests write in the shared directory.
const SKIPS: &str = "skips";
const ENGINES: &str = "engines";

/// A test program.
struct Program {
    test: &'static str,
    /// What the names of its tests on Firecracker begin with.
    module: &'static str,
}

/// Everything that is needed beside kernel and image.
struct Kit {
    firecracker: PathBuf,
    command: PathBuf,
    programs: Vec<PathBuf>,
    /// Fetches what the tests need from a network, where there is a test that does.
    provisions: Option<PathBuf>,
}

/// Where the tests can run.
#[derive(Debug, PartialEq, Eq)]
pub enum Place {
    /// On this machine.
    Here,
    /// In the lab.
    Lab,
    /// Nowhere.
    Nowhere {
        /// Why.
        reason: String,
    },
}

/// How they went.
#[derive(Default)]
pub struct Report {
    /// Whether every program ended well.
    pub passed: bool,
    /// What the tests wrote to the skip file.
    pub skips: String,
    /// What they wrote to the file of engines.
    pub engines: String,
    /// What had to be run again, or has no result, because the lab broke under it.
    pub breaks: Vec<String>,
}

impl Report {
    fn add(&mut self, mut other: Self) {
        self.passed &= other.passed;
        self.skips.push_str(&other.skips);
        self.engines.push_str(&other.engines);
        self.breaks.append(&mut other.breaks);
    }

    /// Removes what earlier tests have told in a directory.
    pub(super) fn forget(dir: &Path) {
        for name in [SKIPS, ENGINES] {
            let _ = fs::remove_file(dir.join(name));
        }
    }
}

/// Looks where the tests can run.
pub fn place(cache: &Cache) -> Place {
    let nowhere = |reason: &str| Place::Nowhere { reason: reason.to_owned() };
    let Some(firecracker) = setup::find_firecracker(cache) else {
        return nowhere("there is no Firecracker binary; `cargo xtask setup` downloads one");
    };
    if !firecracker.with_file_name("jailer").is_file() {
        return nowhere("there is no jailer beside the Firecracker binary");
    }
    if std::env::consts::ARCH != "x86_64" {
        return nowhere("the lab emulates x86-64 only");
    }
    let cpu = fs::read_to_string("/proc/cpuinfo").unwrap_or_default();
    let extended = cpu.split_ascii_whitespace().any(|word| word == "svm" || word == "vmx");
    let device = fs::File::options().read(true).write(true).open("/dev/kvm").is_ok();
    if extended && device && geteuid().is_root() { Place::Here } else { Place::Lab }
}

/// Builds the tests and runs them; `line` gets every line they print.
pub fn run(cache: &Cache, filter: &[String], line: &mut dyn FnMut(&str)) -> Result<Report> {
    let wanted: Vec<&Program> = PROGRAMS.iter().filter(wanted).collect();
    let built = Built::of(&wanted)?;
    let programs = wanted.into_iter().map(|program| Ok((program, built.program(program.test)?)));
    let programs = programs.collect::<Result<Vec<_>>>()?;
    let filter = Filter::new(filter);
    let mut groups = Vec::new();
    for (program, path) in &programs {
        groups.extend(groups::groups(path, program.test, program.module, &filter)?);
    }
    let network = groups.iter().any(|group| group.name == NETWORK);
    let kit = Kit {
        firecracker: setup::find_firecracker(cache).context("there is no Firecracker binary")?,
        command: built.program(COMMAND)?,
        programs: programs.iter().map(|(_, path)| path.clone()).collect(),
        provisions: network.then(|| built.program(PROVISIONS)).transpose()?,
    };
    let mut whole = Report { passed: true, ..Report::default() };
    if place(cache) == Place::Here {
        for group in &groups {
            whole.add(here(cache, &kit, &group.command(None, &filter), line)?);
        }
        return Ok(whole);
    }
    // One at a time: they would share the lab and overwrite each other's files in it.
    let _alone = cache.scratch("lab-tests")?;
    let stage = |share: &Path| stage(cache, share, &kit);
    let mut rig = Rig::new(cache, &stage);
    for group in &groups {
        whole.add(rig.run(group, &filter, line));
    }
    Ok(whole)
}

fn here(cache: &Cache, kit: &Kit, command: &str, line: &mut dyn FnMut(&str)) -> Result<Report> {
    let dir = tempfile::tempdir().context("cannot create a directory for what the tests tell")?;
    let mut child = Command::new("sh")
        .arg("-c")
        .arg(command)
        .env("REKINDLE_ENGINE", "firecracker")
        .env("REKINDLE_CACHE", cache.root())
        .env("REKINDLE_FIRECRACKER", &kit.firecracker)
        .env("REKINDLE_BIN", &kit.command)
        .env("REKINDLE_SKIP_FILE", dir.path().join(SKIPS))
        .env("REKINDLE_ENGINE_FILE", dir.path().join(ENGINES))
        .stdout(Stdio::piped())
        .spawn()
        .context("cannot start the tests")?;
    let output = child.stdout.take().context("the tests have no output")?;
    for text in BufReader::new(output).lines() {
        line(&text?);
    }
    let passed = child.wait()?.success();
    Ok(told(passed, dir.path()))
}

/// What a group's tests have told in the files of a directory.
pub(super) fn told(passed: bool, dir: &Path) -> Report {
    let read = |name: &str| fs::read_to_string(dir.join(name)).unwrap_or_default();
    Report { passed, skips: read(SKIPS), engines: read(ENGINES), breaks: Vec::new() }
}

/// Puts everything the tests need into the share.
fn stage(cache: &Cache, share: &Path, kit: &Kit) -> Result<()> {
    let stage = Stage::empty(share.join(SUITE));
    stage.monitor(&kit.firecracker)?;
    stage.put(&kit.command, Path::new("bin").join(COMMAND))?;
    stage.guest(cache, "minimal")?;
    if everything() {
        stage.guest_if_built(cache, BIG)?;
    }
    for program in &kit.programs {
        stage.put(program, Path::new("tests").join(program.file_name().unwrap_or_default()))?;
    }
    if let Some(program) = &kit.provisions {
        let besides = Stage::empty(share.join(BESIDES));
        besides.guest_if_built(cache, ON_DEMAND)?;
        besides.provisions(cache, program)?;
    }
    Ok(())
}

/// What cargo has built, as it tells it.
struct Built(Vec<serde_json::Value>);

impl Built {
    /// The test programs and the command line, up to date. They are chosen from the whole workspace, as `cargo test
    /// --workspace` has it: of a package by itself cargo would build the dependencies again, with other features.
    fn of(programs: &[&Program]) -> Result<Self> {
        let cargo = std::env::var_os("CARGO").unwrap_or_else(|| OsString::from("cargo"));
        let output = Command::new(cargo)
            .current_dir(repo::root())
            .args(["test", "--no-run", "--workspace", "--message-format=json", "--bin", COMMAND])
            .args(programs.iter().flat_map(|program| ["--test", program.test]))
            .stderr(Stdio::inherit())
            .output()
            .context("cannot start cargo")?;
        (|| {
            ensure!(output.status.success(), "the tests do not build");
            Ok(())
        })()
        .hint("cargo's messages above say why")?;
        let text = String::from_utf8_lossy(&output.stdout);
        Ok(Self(text.lines().filter_map(|line| serde_json::from_str(line).ok()).collect()))
    }

    /// Where a program is: not the tests inside one.
    fn program(&self, name: &str) -> Result<PathBuf> {
        let is_it = |message: &&serde_json::Value| {
            let inside = message["profile"]["test"] == true && message["target"]["kind"][0] == "bin";
            message["target"]["name"] == name && !inside
        };
        self.0
            .iter()
            .filter(is_it)
            .find_map(|message| message["executable"].as_str().map(PathBuf::from))
            .with_context(|| format!("cargo names no program for {name}"))
    }
}

/// Whether a program's tests are asked for.
fn wanted(program: &&Program) -> bool {
    program.module == MODULE || everything()
}

/// Whether the long tests are asked for.
pub fn everything() -> bool {
    std::env::var_os(EVERYTHING).is_some()
}
