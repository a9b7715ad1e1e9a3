//! `cargo xtask compat`: the tests of E2B's SDKs, and of frameworks that use them, against a server of this checkout.
//!
//! ```text
//! tests (a copy outside the checkout) ──▶ pytest or vitest with the SDK ──TLS──▶ rekindle serve ──▶ sandboxes
//! results ──▶ held against tests/compat/SUITE.toml: what may fail, and why
//! ```
//!
//! The server has a domain of its own, as a user's has: sandboxes and their ports are reached by name, with TLS and
//! HTTP/2. A name server of its own tells what such a name leads to, in a
//! mount namespace where it is the only one.
//!
//! Tests that wait for a fixed time have a second try, alone, when they fail.
//!
//! The tests are somebody else's and never come into the repository; the lists have their names only. A test that fails
//! or skips and is not listed is an error, and so is one that is listed and passes: the lists can only shrink.

mod certificate;
mod judge;
mod names;
mod pytest;
mod server;
mod suite;
mod vitest;

use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result, bail, ensure};

use self::judge::{Ended, Exceptions, Results, Sdk, Verdict};
use self::server::Server;
use self::suite::{Framework, Selection, Suite};
use crate::cache::Cache;
use crate::{agent, kernel, repo, rootfs, setup};

/// Which tests, with which SDK.
#[derive(clap::Args)]
pub struct Args {
    /// The tests: packages/python-sdk or packages/js-sdk of a copy of <https://github.com/e2b-dev/E2B>, or python or js of
    /// one of <https://github.com/e2b-dev/code-interpreter>, outside the checkout
    #[arg(long, value_name = "DIR", required_unless_present = "framework")]
    tests: Option<PathBuf>,
    /// In place of them the tests that a framework has for its sandboxes, through E2B's SDK and its adapter
    #[arg(long, value_name = "NAME", conflicts_with_all = ["tests", "sdk"])]
    framework: Option<Framework>,
    /// The framework's tests through this checkout's Python SDK and its adapter, in place of E2B's; its extra brings the
    /// framework
    #[arg(long, requires = "framework")]
    own: bool,
    /// The published version of the Python SDK; that of the tests when left out
    #[arg(long)]
    sdk: Option<String>,
    /// The template of their sandboxes
    #[arg(long, default_value = "python-node")]
    template: String,
    /// Only these files or folders below the tests; every test that needs a server when left out
    #[arg(value_name = "PATH")]
    only: Vec<PathBuf>,
}

/// Runs the tests; an error means that one failed or skipped that may not, or passed that is listed.
pub fn run(args: &Args) -> Result<()> {
    let suite = match (&args.tests, args.framework) {
        (_, Some(framework)) if args.own => Suite::through_own_sdk(framework)?,
        (_, Some(framework)) => Suite::through_e2b(framework)?,
        (Some(tests), None) => Suite::recognise(tests, args.sdk.as_deref())?,
        (None, None) => bail!("no tests are named"),
    };
    ensure!(
        nix::unistd::geteuid().is_root(),
        "the port of HTTPS can be served by root alone\nhint: run it as root"
    );
    setup::packages()?;
    let cache = Cache::open()?;
    let programs = agent::build()?;
    kernel::build(&cache)?;
    rootfs::build(&cache, &args.template, &programs)?;
    let sdk = if args.own { Sdk::Own } else { Sdk::E2b };
    let exceptions = Exceptions::load(&repo::root().join(suite.list()), sdk)?;
    let server = Server::start(&build()?, &cache, &args.template)?;

    let run = |selection: &Selection| run_tests(&suite, &cache, &server, selection, args);
    let mut results = run(&Selection::of(&args.only))?;
    for test in exceptions.second_tries(&results) {
        println!("\nonce more, alone: {test}");
        if run(&suite.alone(&test)?)?.get(&test) == Some(&Ended::Passed) {
            results.insert(test, Ended::PassedAlone);
        }
    }
    server.stop()?;
    let verdict = Verdict::of(&results, &exceptions, args.only.is_empty());
    print!("{verdict}");
    let list = suite.list();
    if verdict.is_good() {
        Ok(())
    } else {
        bail!("what failed or skipped and what {} lists differ", list.display())
    }
}

/// Runs tests of a suite; how they ended.
fn run_tests(
    suite: &Suite,
    cache: &Cache,
    server: &Server,
    selection: &Selection,
    args: &Args,
) -> Result<Results> {
    let report = tempfile::NamedTempFile::new().context("no temporary file")?;
    let mut command = suite.command(cache, server, selection, report.path())?;
    command.envs(server.variables()).env("E2B_VALIDATE_API_KEY", "true");
    if args.own {
        command.env("REKINDLE_SERVER", server.address()).env("REKINDLE_TEMPLATE", &args.template);
        command.env("PYTHONPATH", repo::root().join("sdk/python/src"));
    }
    let status = command.status().context("the tests cannot be started")?;
    // 1 is what both runners say when tests failed, which are judged.
    ensure!(matches!(status.code(), Some(0 | 1)), "the tests' runner ended with {status}");
    judge::results(&std::fs::read_to_string(report.path()).context("there is no report")?)
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
