//! Tests in Python: an environment with the published packages, and pytest in it.

use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result};
use sha2::{Digest as _, Sha256};

use crate::cache::Cache;
use crate::job::Job;

/// What runs the tests, beside what they are of.
const RUNNER: [&str; 5] = ["pytest", "pytest-asyncio", "pytest-dotenv", "pytest-timeout", "pytest-xdist"];
/// Seconds for one test: its programs may run on an emulated processor.
const TEST_LIMIT: &str = "--timeout=240";

/// What tests are run with.
#[derive(Debug)]
pub struct Packages {
    /// As pip has them.
    pub names: Vec<String>,
    /// The description of the one among them that is this checkout's.
    pub described: Option<PathBuf>,
    /// The minor version of Python that they need at least.
    pub python: u32,
}

/// An environment with these packages and what runs tests, made once for each choice of them; its Python.
pub fn environment(cache: &Cache, name: &str, packages: &Packages) -> Result<PathBuf> {
    let mut content = packages.names.join("\n");
    if let Some(path) = &packages.described {
        let read = std::fs::read_to_string(path);
        content += &read.with_context(|| format!("cannot read {}", path.display()))?;
    }
    let dir = cache.root().join("compat").join(format!("{name}-{}", key(content.as_bytes())));
    let python = dir.join("bin/python");
    let whole = dir.join("whole");
    if whole.exists() {
        return Ok(python);
    }
    let base = at_least(packages.python)?;
    let mut job = Job::start(cache, "compat environment")?;
    if dir.exists() {
        std::fs::remove_dir_all(&dir).with_context(|| format!("cannot remove {}", dir.display()))?;
    }
    job.step("an environment for Python")?;
    job.run(Command::new(base).args(["-m", "venv"]).arg(&dir))?;
    job.step("the packages and what runs their tests")?;
    let mut install = Command::new(&python);
    job.run(install.args(["-m", "pip", "install", "--quiet"]).args(&packages.names).args(RUNNER))?;
    std::fs::write(&whole, "").with_context(|| format!("cannot write {}", whole.display()))?;
    job.finish(&packages.names.join(", "));
    Ok(python)
}

/// A Python of this version or a newer one, on the `PATH` or among pyenv's.
fn at_least(minor: u32) -> Result<PathBuf> {
    let newer = (minor..minor + 8).map(|minor| PathBuf::from(format!("python3.{minor}")));
    let pyenv = std::env::var_os("PYENV_ROOT").map(PathBuf::from).into_iter();
    let versions = pyenv.filter_map(|root| std::fs::read_dir(root.join("versions")).ok()).flatten().flatten();
    let pyenvs = versions.map(|version| version.path().join("bin/python3"));
    // pyenv's programs are on the PATH whether or not there is a version behind them.
    let test = format!("import sys, venv; sys.exit(sys.version_info < (3, {minor}))");
    let is_good = |python: &PathBuf| {
        Command::new(python).args(["-c", &test]).output().is_ok_and(|output| output.status.success())
    };
    std::iter::once("python3".into()).chain(newer).chain(pyenvs).find(is_good).with_context(|| {
        format!(
            "these tests need Python 3.{minor} or newer, and there is none\nhint: install one on the PATH, or with pyenv"
        )
    })
}

/// Runs the tests at these places below `tests`; `python` is a command that starts the environment's.
pub fn command(mut python: Command, tests: &Path, places: &[PathBuf], report: &Path) -> Command {
    // -P: the published packages, not a source beside the tests.
    python.current_dir(tests).args(["-P", "-m", "pytest", "-q", TEST_LIMIT, "--tb=short"]);
    python.args(["-p", "no:cacheprovider"]).env("PYTHONDONTWRITEBYTECODE", "1");
    python.arg("--junitxml").arg(report).args(places);
    python
}

/// What pytest calls a test that a report calls `tests.sync.test_run.TestRun.test_it[a.b]`: the file that is there, and
/// what is in it.
pub fn node(tests: &Path, test: &str) -> Option<String> {
    let (name, parameters) = test.split_at(test.find('[').unwrap_or(test.len()));
    let parts: Vec<&str> = name.split('.').collect();
    (1..parts.len()).find_map(|length| {
        let file = format!("{}.py", parts[..length].join("/"));
        tests.join(&file).is_file().then(|| format!("{file}::{}{parameters}", parts[length..].join("::")))
    })
}

/// A short name for what something was made of.
pub fn key(content: &[u8]) -> String {
    Sha256::digest(content).iter().take(6).map(|byte| format!("{byte:02x}")).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_test_is_found_by_the_name_that_a_report_has_for_it() {
        let dir = tempfile::tempdir().expect("a folder");
        std::fs::create_dir_all(dir.path().join("tests/sync")).expect("a folder");
        std::fs::write(dir.path().join("tests/sync/test_run.py"), "").expect("a file");
        let node = |test: &str| node(dir.path(), test);
        assert_eq!(node("tests.sync.test_run.test_a").as_deref(), Some("tests/sync/test_run.py::test_a"));
        let inside = node("tests.sync.test_run.TestRun.test_a[v1.2-x]");
        assert_eq!(inside.as_deref(), Some("tests/sync/test_run.py::TestRun::test_a[v1.2-x]"));
        assert_eq!(node("tests.sync.test_gone.test_a"), None);
    }

    #[test]
    fn a_python_that_is_not_there_is_told_with_a_hint() {
        let error = at_least(900).expect_err("no such version");
        assert!(error.to_string().contains("Python 3.900 or newer") && error.to_string().contains("hint:"));
    }
}
