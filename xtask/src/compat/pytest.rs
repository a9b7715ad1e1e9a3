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

/// An environment with these packages and what runs tests, made once for each choice of them; its Python.
pub fn environment(cache: &Cache, name: &str, packages: &[String]) -> Result<PathBuf> {
    let dir = cache.root().join("compat").join(format!("{name}-{}", key(packages.join("\n").as_bytes())));
    let python = dir.join("bin/python");
    let whole = dir.join("whole");
    if whole.exists() {
        return Ok(python);
    }
    let mut job = Job::start(cache, "compat environment")?;
    if dir.exists() {
        std::fs::remove_dir_all(&dir).with_context(|| format!("cannot remove {}", dir.display()))?;
    }
    job.step("an environment for Python")?;
    job.run(Command::new("python3").args(["-m", "venv"]).arg(&dir))?;
    job.step("the packages and what runs their tests")?;
    job.run(Command::new(&python).args(["-m", "pip", "install", "--quiet"]).args(packages).args(RUNNER))?;
    std::fs::write(&whole, "").with_context(|| format!("cannot write {}", whole.display()))?;
    job.finish(&packages.join(", "));
    Ok(python)
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
}
