//! The Firecracker tests, where they can run: on this machine's KVM, else in the lab.
//!
//! In the lab everything is copied off the shared directory first: reading it is slow there.

use std::ffi::OsString;
use std::fs;
use std::io::{BufRead, BufReader, Write};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use anyhow::{Context, Result, ensure};
use nix::unistd::geteuid;

use super::machine::{Lab, Life};
use crate::cache::Cache;
use crate::hint::Hint;
use crate::{repo, setup};

/// The tests are in a module of this name, in the programs below.
pub const MODULE: &str = "firecracker_on_kvm::";
/// Packages and the integration tests in them.
const PROGRAMS: &[(&str, &str)] = &[("rekindle", "engine_contract")];

/// Variables that reach the tests in the lab.
const TUNING: &[&str] = &["REKINDLE_FAULTS", "REKINDLE_ROUNDS"];
/// How often the tests are tried in a lab that breaks.
const ATTEMPTS: u32 = 2;

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
    let firecracker = setup::find_firecracker(cache).context("there is no Firecracker binary")?;
    let programs = PROGRAMS.iter().map(|(package, test)| build(package, test)).collect::<Result<Vec<_>>>()?;
    if place(cache) == Place::Here {
        return here(cache, &firecracker, &programs, filter, line);
    }
    let script = script(&programs, filter);
    for attempt in 1.. {
        match in_lab(cache, &firecracker, &programs, &script, line) {
            // An emulated processor now and then trips over code that the kernel patches while it runs.
            Err(error) if attempt < ATTEMPTS => eprintln!("lab: it broke, trying again: {error:#}"),
            result => return result,
        }
    }
    unreachable!("the last attempt returns")
}

fn in_lab(
    cache: &Cache,
    firecracker: &Path,
    programs: &[PathBuf],
    script: &str,
    line: &mut dyn FnMut(&str),
) -> Result<Report> {
    // One at a time: they would share the lab and overwrite each other's files in it.
    let _alone = cache.scratch("lab-tests")?;
    let lab = Lab::join(cache, Life::Bound)?;
    stage(cache, &lab.share(), firecracker, programs)?;
    // Shown when it is complete: of a lab that breaks half-way nothing is to be counted.
    let mut lines = Vec::new();
    let mut keep = |text: &str| lines.push(text.to_owned());
    let code =
        lab.run(script, &mut Lines { pending: Vec::new(), line: &mut keep }, &mut std::io::stderr())?;
    lines.iter().for_each(|text| line(text));
    let skips = fs::read_to_string(lab.share().join("skips")).unwrap_or_default();
    Ok(Report { passed: code == 0, skips })
}

/// What runs in the lab.
fn script(programs: &[PathBuf], filter: &[String]) -> String {
    let names = programs.iter().filter_map(|path| path.file_name());
    let paths: Vec<PathBuf> = names.map(|name| Path::new("./tests").join(name)).collect();
    let asked =
        TUNING.iter().filter_map(|name| Some(format!("{name}={}", quote(&std::env::var(name).ok()?))));
    format!(
        "rm -rf /room/suite; cp -r /share/suite /room/suite && cd /room/suite || exit 1; \
         export REKINDLE_CACHE=/room/suite/cache REKINDLE_FIRECRACKER=/room/suite/bin/firecracker \
         REKINDLE_SKIP_FILE=/share/skips TMPDIR=/room {}; {}",
        asked.collect::<Vec<_>>().join(" "),
        tests(&paths, filter)
    )
}

/// Runs the tests of the module, or those of them whose name contains a word of the filter: libtest alone
/// would run what has the one or the other. Words that begin with a dash are for libtest.
fn tests(programs: &[PathBuf], filter: &[String]) -> String {
    let (options, words): (Vec<&String>, Vec<&String>) =
        filter.iter().partition(|word| word.starts_with('-'));
    let join = |words: Vec<String>| words.join(" ");
    let choice = if words.is_empty() {
        "cat".to_owned()
    } else {
        format!("grep -F {}", join(words.iter().map(|word| format!("-e {}", quote(word))).collect()))
    };
    format!(
        "code=0; for program in {}; do \
         chosen=$($program {MODULE} --list --format terse | sed -n 's/: test$//p' | {choice}); \
         [ -z \"$chosen\" ] || $program --test-threads=1 {} --exact $chosen || code=1; done; exit $code",
        join(programs.iter().map(|path| quote(&path.display().to_string())).collect()),
        join(options.iter().map(|word| quote(word)).collect())
    )
}

fn here(
    cache: &Cache,
    firecracker: &Path,
    programs: &[PathBuf],
    filter: &[String],
    line: &mut dyn FnMut(&str),
) -> Result<Report> {
    let skips = tempfile::NamedTempFile::new().context("cannot create the skip file")?;
    let mut child = Command::new("sh")
        .arg("-c")
        .arg(tests(programs, filter))
        .env("REKINDLE_CACHE", cache.root())
        .env("REKINDLE_FIRECRACKER", firecracker)
        .env("REKINDLE_SKIP_FILE", skips.path())
        .stdout(Stdio::piped())
        .spawn()
        .context("cannot start the tests")?;
    let output = child.stdout.take().context("the tests have no output")?;
    for text in BufReader::new(output).lines() {
        line(&text?);
    }
    let passed = child.wait()?.success();
    Ok(Report { passed, skips: fs::read_to_string(skips.path())? })
}

/// Puts everything the tests need into the shared directory.
fn stage(cache: &Cache, share: &Path, firecracker: &Path, programs: &[PathBuf]) -> Result<()> {
    let suite = share.join("suite");
    let _ = fs::remove_dir_all(&suite);
    let _ = fs::remove_file(share.join("skips"));
    let put = |source: &Path, target: PathBuf| -> Result<()> {
        if let Some(dir) = target.parent() {
            fs::create_dir_all(dir)?;
        }
        fs::copy(source, &target)
            .with_context(|| format!("cannot copy {}", source.display()))
            .hint("run `cargo xtask build`")?;
        Ok(())
    };
    put(firecracker, suite.join("bin/firecracker"))?;
    put(&firecracker.with_file_name("jailer"), suite.join("bin/jailer"))?;
    for file in ["kernel/current/vmlinux", "images/minimal/current/image.erofs"] {
        put(&cache.root().join(file), suite.join("cache").join(file))?;
    }
    for program in programs {
        put(program, suite.join("tests").join(program.file_name().unwrap_or_default()))?;
    }
    Ok(())
}

/// The program of one integration test, up to date.
fn build(package: &str, test: &str) -> Result<PathBuf> {
    let cargo = std::env::var_os("CARGO").unwrap_or_else(|| OsString::from("cargo"));
    let output = Command::new(cargo)
        .current_dir(repo::root())
        .args(["test", "--no-run", "--message-format=json", "--package", package, "--test", test])
        .stderr(Stdio::inherit())
        .output()
        .context("cannot start cargo")?;
    (|| {
        ensure!(output.status.success(), "the test {test} does not build");
        Ok(())
    })()
    .hint("cargo's messages above say why")?;
    String::from_utf8_lossy(&output.stdout)
        .lines()
        .filter_map(|line| serde_json::from_str::<serde_json::Value>(line).ok())
        .filter(|message| message["target"]["name"] == test)
        .find_map(|message| message["executable"].as_str().map(PathBuf::from))
        .with_context(|| format!("cargo names no program for the test {test}"))
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
        let run = |filter: &[&str]| {
            let filter: Vec<String> = filter.iter().map(|word| (*word).to_owned()).collect();
            let script = tests(std::slice::from_ref(&program), &filter).replace("$program ", "sh $program ");
            let output = Command::new("sh").arg("-c").arg(script).output().unwrap();
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
