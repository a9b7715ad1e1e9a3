//! `cargo xtask compat`: the official tests of E2B's Python SDK against a server of this checkout.
//!
//! ```text
//! tests (a copy outside the checkout) ──▶ pytest with the published SDK ──TLS──▶ rekindle serve ──▶ sandboxes
//! results ──▶ held against tests/compat/e2b-python.toml: what may fail, and why
//! ```
//!
//! The server has a domain of its own, as a user's has: sandboxes and their ports are reached by name, with TLS and
//! HTTP/2. A name server of its own tells what such a name leads to, in a
//! mount namespace where it is the only one.
//!
//! The tests are somebody else's and never come into the repository; the list has their names only. A test that fails
//! and is not listed is an error, and so is one that is listed and passes: the list can only shrink.

mod certificate;
mod judge;
mod names;
mod server;

use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result, bail, ensure};

use self::judge::{Exceptions, Verdict};
use self::server::Server;
use crate::cache::Cache;
use crate::job::Job;
use crate::{agent, kernel, repo, rootfs, setup};

/// What may fail.
const LIST: &str = "tests/compat/e2b-python.toml";
/// What runs the tests, beside the SDK.
const RUNNER: [&str; 5] = ["pytest", "pytest-asyncio", "pytest-dotenv", "pytest-timeout", "pytest-xdist"];
/// Seconds for one test: its programs may run on an emulated processor.
const TEST_LIMIT: &str = "--timeout=240";

/// Which tests, with which SDK.
#[derive(clap::Args)]
pub struct Args {
    /// The folder `packages/python-sdk` of a copy of <https://github.com/e2b-dev/E2B>, outside the checkout
    #[arg(long, value_name = "DIR")]
    tests: PathBuf,
    /// The published version of the SDK
    #[arg(long, default_value = "2.45.1")]
    sdk: String,
    /// The template of their sandboxes
    #[arg(long, default_value = "python-node")]
    template: String,
    /// Only these files or folders below the tests; every test that needs a server when left out
    #[arg(value_name = "PATH")]
    only: Vec<PathBuf>,
}

/// Runs the tests; an error means that one failed that may not, or passed that is said to fail.
pub fn run(args: &Args) -> Result<()> {
    ensure!(
        args.tests.join("pytest.ini").exists(),
        "{} has no pytest.ini\nhint: name the folder packages/python-sdk of a copy of E2B's repository",
        args.tests.display()
    );
    ensure!(
        nix::unistd::geteuid().is_root(),
        "the port of HTTPS can be served by root alone\nhint: run it as root"
    );
    setup::packages()?;
    let cache = Cache::open()?;
    let programs = agent::build()?;
    kernel::build(&cache)?;
    rootfs::build(&cache, &args.template, &programs)?;
    let exceptions = Exceptions::load(&repo::root().join(LIST))?;
    let python = environment(&cache, &args.sdk)?;
    let server = Server::start(&build()?, &cache, &args.template)?;

    let report = tempfile::NamedTempFile::new().context("no temporary file")?;
    let mut command = server.among_its_names(&python);
    // -P: the published SDK, not the source beside the tests.
    command.current_dir(&args.tests).args(["-P", "-m", "pytest", "-q", TEST_LIMIT, "--tb=short"]);
    command.arg("--junitxml").arg(report.path()).args(args.places());
    command.envs(server.variables()).env("E2B_VALIDATE_API_KEY", "true");
    let status = command.status().context("cannot start pytest")?;
    // 1 is what pytest says when tests failed; they are judged below.
    ensure!(matches!(status.code(), Some(0 | 1)), "pytest ended with {status}");
    server.stop()?;

    let text = std::fs::read_to_string(report.path()).context("pytest wrote no report")?;
    let verdict = Verdict::of(&judge::results(&text)?, &exceptions, args.only.is_empty());
    print!("{verdict}");
    if verdict.is_good() { Ok(()) } else { bail!("what failed and what is listed in {LIST} differ") }
}

impl Args {
    fn places(&self) -> Vec<PathBuf> {
        if self.only.is_empty() {
            return ["tests/sync", "tests/async", "tests/shared"].map(PathBuf::from).into();
        }
        self.only.clone()
    }
}

/// An environment with the SDK and what runs its tests, made once for each version; its Python.
fn environment(cache: &Cache, sdk: &str) -> Result<PathBuf> {
    ensure!(
        !sdk.is_empty() && sdk.chars().all(|c| c.is_ascii_alphanumeric() || c == '.'),
        "{sdk:?} is no version"
    );
    let dir = cache.root().join("compat").join(format!("e2b-{sdk}"));
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
    job.step("the SDK and what runs its tests")?;
    let mut pip = Command::new(&python);
    pip.args(["-m", "pip", "install", "--quiet"]).arg(format!("e2b=={sdk}")).args(RUNNER);
    job.run(&mut pip)?;
    std::fs::write(&whole, "").with_context(|| format!("cannot write {}", whole.display()))?;
    job.finish(&format!("e2b {sdk}"));
    Ok(python)
}

/// The program as the tests of this checkout use it: what its guests do takes most of the time.
fn build() -> Result<PathBuf> {
    let cargo = std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into());
    let status = Command::new(cargo)
        .current_dir(repo::root())
        .args(["build", "--package", "rekindle"])
        .status()
        .context("cannot start cargo")?;
    ensure!(status.success(), "rekindle does not build");
    Ok(repo::target_dir().join("debug/rekindle"))
}

/// A path as text, for a setting.
fn text(path: &Path) -> Result<&str> {
    path.to_str().with_context(|| format!("{} is not text", path.display()))
}
