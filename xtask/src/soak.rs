//! `cargo xtask soak`: one service for long, with machines killed at random, on either engine. The test is
//! `tests/e2e/tests/service/soak.rs`; every test run has a short turn of it.

use std::process::{Command, ExitCode};

use anyhow::{Context, Result, bail};

use crate::cache::Cache;
use crate::{agent, kernel, lab, repo, rootfs, setup};

/// For how long; the test reads it.
pub const MINUTES: &str = "REKINDLE_SOAK_MINUTES";
/// The test's name begins so.
const TEST: &str = "soak::";
const IMAGE: &str = "minimal";

/// For how long, and on what.
#[derive(clap::Args)]
pub struct Args {
    /// How many minutes
    #[arg(long, default_value_t = 30)]
    minutes: u32,
    /// qemu or firecracker; Firecracker runs in the lab where this machine's KVM is not usable
    #[arg(long, default_value = "qemu", value_parser = ["qemu", "firecracker"])]
    engine: String,
}

/// Runs it.
pub fn run(args: &Args) -> Result<ExitCode> {
    setup::packages()?;
    let cache = Cache::open()?;
    let programs = agent::build()?;
    kernel::build(&cache)?;
    rootfs::build(&cache, IMAGE, &programs)?;
    let cargo = std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into());
    let mut command = Command::new(cargo);
    command.current_dir(repo::root()).env(MINUTES, args.minutes.to_string());
    if args.engine == "firecracker" {
        // A process of its own reads what this one cannot set for itself.
        command.env(lab::EVERYTHING, "1").args(["xtask", "lab", "test", "--", TEST]);
    } else {
        let filter = ["test", "--package", "rekindle-e2e", "--test", "service", "--", "--nocapture", TEST];
        command.env("REKINDLE_ENGINE", "qemu").args(filter);
    }
    let status = command.status().context("cannot start cargo")?;
    if !status.success() {
        bail!("the service did not stand it");
    }
    Ok(ExitCode::SUCCESS)
}
