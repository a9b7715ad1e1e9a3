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

/// A short name for what something was made of.
pub fn key(content: &[u8]) -> String {
    Sha256::digest(content).iter().take(6).map(|byte| format!("{byte:02x}")).collect()
}
