//! Builds and runs the named tests: as they are, and with bugs planted.

use std::collections::BTreeMap;
use std::fmt;
use std::fs::{self, File};
use std::io::{Read as _, Seek as _};
use std::process::{Command, Output, Stdio};

use anyhow::{Context, Result, bail};

use super::list::{Mutant, planted};
use super::scratch::Scratch;

/// How long a build may take, in seconds: the first one makes everything.
const BUILD: &str = "3600";
/// How long a test may take. Tests end what hangs themselves, sooner.
const TEST: &str = "600";
/// How long all tests of a target may take that run beside planted bugs. What has not ended by then has no result.
const ALL: &str = "240";
/// What `timeout` ends with when time was up, and when it had to kill.
const TIME_UP: [i32; 2] = [124, 137];

/// What came of one planted bug.
#[derive(Debug, PartialEq, Eq)]
pub enum Verdict {
    /// Its test failed.
    Found,
    /// Its test passed.
    Survived,
    /// Its test did not end.
    Hung,
    /// It is no program: the compiler's first words.
    NoBuild(String),
    /// Its test cannot run on this machine.
    Skipped,
}

impl fmt::Display for Verdict {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Found => f.write_str("found"),
            Self::Survived => f.write_str("SURVIVED: its test stays green"),
            Self::Hung => f.write_str("HUNG: its test does not end"),
            Self::NoBuild(error) => write!(f, "DOES NOT COMPILE: {error}"),
            Self::Skipped => f.write_str("not tried: its test is skipped on this machine"),
        }
    }
}

/// Runs all named tests on the code as it is: red means something only where green was before.
pub fn baseline(scratch: &Scratch, mutants: &[&Mutant]) -> Result<()> {
    for ((package, target), tests) in by_target(mutants) {
        let built = build(scratch, package, &[target])?;
        if !built.status.success() {
            bail!("the tests of {package} do not compile:\n{}", String::from_utf8_lossy(&built.stderr));
        }
        let names: Vec<&str> = tests.iter().map(|mutant| mutant.test.as_str()).collect();
        let (output, _) = test(scratch, TEST, package, target, &names)?;
        let told = String::from_utf8_lossy(&output.stdout);
        for name in names {
            match results(&told, name).as_slice() {
                [true] => {}
                [] => bail!("{package} has no test {name} in {target}"),
                [false] => bail!("{name} fails without any planted bug:\n{told}"),
                _ => bail!("{package} has several tests {name} in {target}"),
            }
        }
    }
    Ok(())
}

/// Plants one bug, runs its test, and takes the bug back.
pub fn alone(scratch: &Scratch, mutant: &Mutant) -> Result<Verdict> {
    let seen = with_planted(scratch, &[mutant], &[mutant], || one(scratch, mutant))?;
    Ok(seen.unwrap_or_else(Verdict::NoBuild))
}

/// Plants bugs, each in a file of its own, builds the tests of some, looks at what was built, and takes the bugs back.
/// What does not compile is not looked at: the compiler's first words.
pub fn with_planted<T>(
    scratch: &Scratch,
    bugs: &[&Mutant],
    tests: &[&Mutant],
    look: impl FnOnce() -> Result<T>,
) -> Result<Result<T, String>> {
    let mut originals = Vec::new();
    for bug in bugs {
        let path = scratch.file(&bug.file);
        let text = fs::read_to_string(&path).with_context(|| format!("cannot read {}", path.display()))?;
        originals.push((path, planted(bug, &text)?, text));
    }
    for (path, planted, _) in &originals {
        fs::write(path, planted)?;
    }
    let seen = built(scratch, tests).and_then(|built| match built {
        Ok(()) => look().map(Ok),
        Err(error) => Ok(Err(error)),
    });
    for (path, _, original) in originals {
        fs::write(path, original)?;
    }
    seen
}

fn built(scratch: &Scratch, tests: &[&Mutant]) -> Result<Result<(), String>> {
    let mut packages: BTreeMap<&str, Vec<&str>> = BTreeMap::new();
    for (package, target) in by_target(tests).into_keys() {
        packages.entry(package).or_default().push(target);
    }
    for (package, targets) in packages {
        let built = build(scratch, package, &targets)?;
        if !built.status.success() {
            let told = String::from_utf8_lossy(&built.stderr);
            let error = told.lines().find(|line| line.starts_with("error")).unwrap_or("error");
            return Ok(Err(error.to_owned()));
        }
    }
    Ok(Ok(()))
}

/// Runs the test of one bug by itself, on what was built.
pub fn one(scratch: &Scratch, mutant: &Mutant) -> Result<Verdict> {
    let Mutant { package, target, test: name, .. } = mutant;
    let (output, skipped) = test(scratch, TEST, package, target, &[name])?;
    Ok(verdict(output.status.code(), skipped, &results(&String::from_utf8_lossy(&output.stdout), name)))
}

/// Those whose test passes when all of them run, on what was built.
pub fn green<'a>(scratch: &Scratch, mutants: &[&'a Mutant]) -> Result<Vec<&'a Mutant>> {
    let mut green = Vec::new();
    for ((package, target), tests) in by_target(mutants) {
        let names: Vec<&str> = tests.iter().map(|mutant| mutant.test.as_str()).collect();
        let (output, _) = test(scratch, ALL, package, target, &names)?;
        let told = String::from_utf8_lossy(&output.stdout);
        green.extend(tests.into_iter().filter(|mutant| results(&told, &mutant.test) == [true]));
    }
    Ok(green)
}

fn by_target<'a>(mutants: &[&'a Mutant]) -> BTreeMap<(&'a str, &'a str), Vec<&'a Mutant>> {
    let mut targets: BTreeMap<(&str, &str), Vec<&Mutant>> = BTreeMap::new();
    for mutant in mutants {
        targets.entry((&mutant.package, &mutant.target)).or_default().push(mutant);
    }
    targets
}

fn verdict(code: Option<i32>, skipped: bool, results: &[bool]) -> Verdict {
    match (code, results) {
        (Some(0), _) if skipped => Verdict::Skipped,
        (Some(0), _) => Verdict::Survived,
        // Without a result the process itself has ended: by an abort, for one.
        (Some(code), []) if TIME_UP.contains(&code) => Verdict::Hung,
        _ => Verdict::Found,
    }
}

/// Whether each test of this name passed. A name that several have begins with that of a module.
fn results(told: &str, name: &str) -> Vec<bool> {
    let results = told.lines().filter_map(|line| line.strip_prefix("test ")?.split_once(" ... "));
    let mut own: BTreeMap<&str, bool> = BTreeMap::new();
    let named =
        |path: &str| path.strip_suffix(name).is_some_and(|rest| rest.is_empty() || rest.ends_with("::"));
    for (path, result) in results.filter(|(path, _)| named(path)) {
        // A test that runs itself in another process is told of twice.
        *own.entry(path).or_insert(true) &= result.starts_with("ok");
    }
    own.into_values().collect()
}

fn build(scratch: &Scratch, package: &str, targets: &[&str]) -> Result<Output> {
    let mut command = scratch.cargo(BUILD);
    command.args(["test", "--quiet", "--no-run", "--package", package]);
    command.args(targets.iter().flat_map(|target| chosen(target)));
    finish(command)
}

/// Runs tests by name, and says whether one of them was skipped.
fn test(
    scratch: &Scratch,
    longest: &str,
    package: &str,
    target: &str,
    names: &[&str],
) -> Result<(Output, bool)> {
    let told = tempfile::tempdir().context("cannot create a directory for what tests tell")?;
    let skips = told.path().join("skips");
    let mut command = scratch.cargo(longest);
    command.args(["test", "--quiet", "--package", package]).args(chosen(target)).arg("--").args(names);
    // Cargo's `--quiet` is the test program's, too, and would hide the names.
    command.arg("--format=pretty").env("REKINDLE_SKIP_FILE", &skips);
    let output = finish(command)?;
    Ok((output, fs::metadata(skips).is_ok_and(|file| file.len() > 0)))
}

/// Runs a command to its end. Its output goes to files: what a failed test leaves running would keep pipes open.
fn finish(mut command: Command) -> Result<Output> {
    let (mut stdout, mut stderr) = (tempfile::tempfile()?, tempfile::tempfile()?);
    let status = command
        .stdin(Stdio::null())
        .stdout(stdout.try_clone()?)
        .stderr(stderr.try_clone()?)
        .status()
        .context("cannot start cargo")?;
    let whole = |file: &mut File| {
        let mut text = Vec::new();
        file.rewind()?;
        file.read_to_end(&mut text)?;
        std::io::Result::Ok(text)
    };
    Ok(Output { status, stdout: whole(&mut stdout)?, stderr: whole(&mut stderr)? })
}

fn chosen(target: &str) -> Vec<&str> {
    match target {
        "lib" => vec!["--lib"],
        "bin" => vec!["--bins"],
        test => vec!["--test", test],
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_result_is_read_off_the_line_of_its_test() {
        let told = "running 3 tests\ntest a::tests::it ... ok\ntest b::it_is ... ok\ntest it ... FAILED\n\ntest result: FAILED.\n";
        assert_eq!(results(told, "it"), [true, false]);
        assert_eq!(results(told, "it_is"), [true]);
        assert_eq!(results(told, "tests::it"), [true]);
        assert_eq!(results(told, "nothing"), [false; 0]);
        assert_eq!(results("test a::it ... ok\ntest a::it ... FAILED\n", "it"), [false]);
    }

    #[test]
    fn what_a_test_leaves_running_is_not_waited_for() {
        let mut command = Command::new("sh");
        command.args(["-c", "sleep 600 & echo $!; echo told >&2; exit 3"]);
        let output = finish(command).unwrap();
        let left = String::from_utf8(output.stdout).unwrap();
        let killed = Command::new("kill").arg(left.trim()).status().unwrap();
        assert!(killed.success(), "it was waited for, although it holds the output open");
        assert_eq!((output.status.code(), output.stderr.as_slice()), (Some(3), &b"told\n"[..]));
    }

    #[test]
    fn a_bug_is_found_only_by_a_test_that_fails_by_itself() {
        assert_eq!(verdict(Some(0), false, &[true]), Verdict::Survived);
        assert_eq!(verdict(Some(0), true, &[true]), Verdict::Skipped);
        assert_eq!(verdict(Some(101), false, &[false]), Verdict::Found);
        assert_eq!(verdict(Some(101), false, &[]), Verdict::Found, "an abort");
        assert_eq!(verdict(Some(124), false, &[]), Verdict::Hung);
    }
}
