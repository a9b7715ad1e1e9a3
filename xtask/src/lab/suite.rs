//! The tests on Firecracker, where they can run: on this machine's KVM, else in the lab.
//!
//! These are the engine's own tests and the end-to-end suite, which also runs on QEMU. In the lab everything
//! is copied off the shared directory first: reading it is slow there.

use std::ffi::OsString;
use std::fs;
use std::io::{BufRead, BufReader, Write};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use anyhow::{Context, Result, ensure};
use nix::unistd::geteuid;

use super::machine::{Lab, Life};
use super::stage::Stage;
use crate::cache::Cache;
use crate::hint::Hint;
use crate::{repo, setup};

/// The engine's own tests are in a module of this name.
pub const MODULE: &str = "firecracker_on_kvm::";
/// The programs and, of each, the tests.
const PROGRAMS: &[Program] = &[
    Program { package: "rekindle", test: "engine_contract", module: MODULE },
    Program { package: "rekindle-e2e", test: "sandbox", module: "" },
    Program { package: "rekindle-e2e", test: "service", module: "" },
];
/// Runs the end-to-end suite in the lab too. It takes ten minutes there, and an emulated machine that is busy
/// loses a guest now and then.
const EVERYTHING: &str = "REKINDLE_LAB_E2E";
/// The command line, which the end-to-end suite runs.
const COMMAND: &str = "rekindle";
/// What the tests write in the shared directory.
const SKIPS: &str = "skips";
const ENGINES: &str = "engines";

/// Variables that reach the tests in the lab.
const TUNING: &[&str] = &["REKINDLE_FAULTS", "REKINDLE_KILLS", "REKINDLE_ROUNDS", "REKINDLE_STRESS"];
/// How often the tests are tried in a lab that breaks.
const ATTEMPTS: u32 = 2;

/// A test program.
struct Program {
    package: &'static str,
    test: &'static str,
    /// What the names of its tests on Firecracker begin with.
    module: &'static str,
}

/// A test program that is built.
struct Built {
    path: PathBuf,
    module: &'static str,
}

/// Everything that is needed beside kernel and image.
struct Kit {
    firecracker: PathBuf,
    command: PathBuf,
    programs: Vec<Built>,
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
pub struct Report {
    /// Whether every program ended well.
    pub passed: bool,
    /// What the tests wrote to the skip file.
    pub skips: String,
    /// What they wrote to the file of engines.
    pub engines: String,
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
    let built = |program: &Program| -> Result<Built> {
        let path = build(&["test", "--no-run"], program.package, &["--test", program.test], program.test)?;
        Ok(Built { path, module: program.module })
    };
    let kit = Kit {
        firecracker: setup::find_firecracker(cache).context("there is no Firecracker binary")?,
        command: build(&["build"], COMMAND, &["--bin", COMMAND], COMMAND)?,
        programs: PROGRAMS.iter().filter(wanted).map(built).collect::<Result<_>>()?,
    };
    if place(cache) == Place::Here {
        return here(cache, &kit, filter, line);
    }
    // One program after the other, so that a lab that breaks costs no more than one of them.
    let mut whole = Report { passed: true, skips: String::new(), engines: String::new() };
    for program in &kit.programs {
        let report = insist(cache, &kit, &script(program, filter), line)?;
        whole.passed &= report.passed;
        whole.skips.push_str(&report.skips);
        whole.engines.push_str(&report.engines);
    }
    Ok(whole)
}

/// Tries again when the lab breaks: an emulated processor now and then trips over code that the kernel patches
/// while it runs.
fn insist(cache: &Cache, kit: &Kit, script: &str, line: &mut dyn FnMut(&str)) -> Result<Report> {
    for _ in 1..ATTEMPTS {
        match in_lab(cache, kit, script, line) {
            Err(error) => eprintln!("lab: it broke, trying again: {error:#}"),
            result => return result,
        }
    }
    in_lab(cache, kit, script, line)
}

fn in_lab(cache: &Cache, kit: &Kit, script: &str, line: &mut dyn FnMut(&str)) -> Result<Report> {
    // One at a time: they would share the lab and overwrite each other's files in it.
    let _alone = cache.scratch("lab-tests")?;
    let lab = Lab::join(cache, Life::Bound)?;
    let share = lab.share();
    stage(cache, &share, kit)?;
    // Shown when it is complete: of a lab that breaks half-way nothing is to be counted.
    let mut lines = Vec::new();
    let mut keep = |text: &str| lines.push(text.to_owned());
    let code =
        lab.run(script, &mut Lines { pending: Vec::new(), line: &mut keep }, &mut std::io::stderr())?;
    lines.iter().for_each(|text| line(text));
    let told = |name: &str| fs::read_to_string(share.join(name)).unwrap_or_default();
    Ok(Report { passed: code == 0, skips: told(SKIPS), engines: told(ENGINES) })
}

/// What runs in the lab.
fn script(program: &Built, filter: &[String]) -> String {
    let name = program.path.file_name().unwrap_or_default();
    let inside = Built { path: Path::new("./tests").join(name), module: program.module };
    let asked =
        TUNING.iter().filter_map(|name| Some(format!("{name}={}", quote(&std::env::var(name).ok()?))));
    format!(
        "rm -rf /room/suite; cp -r /share/suite /room/suite && cd /room/suite || exit 1; \
         export REKINDLE_LAB=1 REKINDLE_ENGINE=firecracker REKINDLE_CACHE=/room/suite/cache \
         REKINDLE_FIRECRACKER=/room/suite/bin/firecracker REKINDLE_BIN=/room/suite/bin/{COMMAND} \
         REKINDLE_SKIP_FILE=/share/{SKIPS} REKINDLE_ENGINE_FILE=/share/{ENGINES} TMPDIR=/room {}; {}",
        asked.collect::<Vec<_>>().join(" "),
        tests(&[inside], filter)
    )
}

/// Runs the tests on Firecracker, or those of them whose name contains a word of the filter: libtest alone
/// would run what is in the module or has such a name. Words that begin with a dash are for libtest.
fn tests(programs: &[Built], filter: &[String]) -> String {
    let (options, words): (Vec<&String>, Vec<&String>) =
        filter.iter().partition(|word| word.starts_with('-'));
    let join = |words: Vec<String>| words.join(" ");
    let choice = if words.is_empty() {
        "cat".to_owned()
    } else {
        format!("grep -F {}", join(words.iter().map(|word| format!("-e {}", quote(word))).collect()))
    };
    let options = join(options.iter().map(|word| quote(word)).collect());
    let one = |program: &Built| {
        let path = quote(&program.path.display().to_string());
        format!(
            "chosen=$({path} {} --list --format terse | sed -n 's/: test$//p' | {choice}); \
             [ -z \"$chosen\" ] || {path} --test-threads=1 {options} --exact $chosen || code=1; ",
            program.module
        )
    };
    format!("code=0; {}exit $code", join(programs.iter().map(one).collect()))
}

fn here(cache: &Cache, kit: &Kit, filter: &[String], line: &mut dyn FnMut(&str)) -> Result<Report> {
    let told = tempfile::tempdir().context("cannot create a directory for what the tests tell")?;
    let mut child = Command::new("sh")
        .arg("-c")
        .arg(tests(&kit.programs, filter))
        .env("REKINDLE_ENGINE", "firecracker")
        .env("REKINDLE_CACHE", cache.root())
        .env("REKINDLE_FIRECRACKER", &kit.firecracker)
        .env("REKINDLE_BIN", &kit.command)
        .env("REKINDLE_SKIP_FILE", told.path().join(SKIPS))
        .env("REKINDLE_ENGINE_FILE", told.path().join(ENGINES))
        .stdout(Stdio::piped())
        .spawn()
        .context("cannot start the tests")?;
    let output = child.stdout.take().context("the tests have no output")?;
    for text in BufReader::new(output).lines() {
        line(&text?);
    }
    let passed = child.wait()?.success();
    let told = |name: &str| fs::read_to_string(told.path().join(name)).unwrap_or_default();
    Ok(Report { passed, skips: told(SKIPS), engines: told(ENGINES) })
}

/// Puts everything the tests need into the shared directory.
fn stage(cache: &Cache, share: &Path, kit: &Kit) -> Result<()> {
    for name in [SKIPS, ENGINES] {
        let _ = fs::remove_file(share.join(name));
    }
    let stage = Stage::empty(share.join("suite"));
    stage.monitor(&kit.firecracker)?;
    stage.put(&kit.command, Path::new("bin").join(COMMAND))?;
    stage.guest(cache, "minimal")?;
    for program in &kit.programs {
        stage.put(&program.path, Path::new("tests").join(program.path.file_name().unwrap_or_default()))?;
    }
    Ok(())
}

/// A program of the workspace, up to date.
fn build(verb: &[&str], package: &str, target: &[&str], name: &str) -> Result<PathBuf> {
    let cargo = std::env::var_os("CARGO").unwrap_or_else(|| OsString::from("cargo"));
    let output = Command::new(cargo)
        .current_dir(repo::root())
        .args(verb)
        .args(["--message-format=json", "--package", package])
        .args(target)
        .stderr(Stdio::inherit())
        .output()
        .context("cannot start cargo")?;
    (|| {
        ensure!(output.status.success(), "{name} does not build");
        Ok(())
    })()
    .hint("cargo's messages above say why")?;
    String::from_utf8_lossy(&output.stdout)
        .lines()
        .filter_map(|line| serde_json::from_str::<serde_json::Value>(line).ok())
        .filter(|message| message["target"]["name"] == name)
        .find_map(|message| message["executable"].as_str().map(PathBuf::from))
        .with_context(|| format!("cargo names no program for {name}"))
}

fn quote(word: &str) -> String {
    format!("'{}'", word.replace('\'', "'\\''"))
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

/// Whether a program's tests are asked for.
fn wanted(program: &&Program) -> bool {
    program.module == MODULE || std::env::var_os(EVERYTHING).is_some()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_filter_chooses_among_the_tests_of_the_module_only() {
        let dir = tempfile::tempdir().unwrap();
        let program = dir.path().join("program");
        // Stands in for a test program: lists, or says what it was asked to run.
        let text = "#!/bin/sh\ncase \"$*\" in *--list*) printf '%s: test\\n' firecracker_on_kvm::a_one \\\n \
                    firecracker_on_kvm::b_two;; *) echo \"$@\";; esac\n";
        fs::write(&program, text).unwrap();
        fs::set_permissions(&program, std::os::unix::fs::PermissionsExt::from_mode(0o755)).unwrap();
        let run = |filter: &[&str]| {
            let filter: Vec<String> = filter.iter().map(|word| (*word).to_owned()).collect();
            let built = Built { path: program.clone(), module: MODULE };
            let output = Command::new("sh").arg("-c").arg(tests(&[built], &filter)).output().unwrap();
            String::from_utf8(output.stdout).unwrap()
        };
        let all = "--test-threads=1 --exact firecracker_on_kvm::a_one firecracker_on_kvm::b_two\n";
        assert_eq!(run(&[]), all);
        assert_eq!(
            run(&["two", "--nocapture"]),
            "--test-threads=1 --nocapture --exact firecracker_on_kvm::b_two\n"
        );
        assert_eq!(run(&["three"]), "");
    }
}
