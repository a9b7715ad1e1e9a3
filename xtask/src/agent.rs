//! `cargo xtask agent`: the guest agent as one static binary.

use std::path::PathBuf;
use std::process::Command;

use anyhow::{Context, Result, ensure};

use crate::hint::Hint;
use crate::repo;

/// glibc linked statically: needs no toolchain beyond the one that builds the host side.
const TARGET: &str = "x86_64-unknown-linux-gnu";

/// Builds the agent and says where it is.
pub fn run() -> Result<()> {
    println!("{}", build()?.display());
    Ok(())
}

/// The agent's binary, up to date.
pub fn build() -> Result<PathBuf> {
    let cargo = std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into());
    let status = Command::new(cargo)
        .current_dir(repo::root())
        .args(["build", "--package", "rekindle-agent", "--profile", "agent", "--target", TARGET])
        .env("CARGO_TARGET_X86_64_UNKNOWN_LINUX_GNU_RUSTFLAGS", "-C target-feature=+crt-static")
        .status()
        .context("cannot start cargo")?;
    let path = repo::target_dir().join(TARGET).join("agent/rekindle-agent");
    (|| {
        ensure!(status.success() && path.is_file(), "the agent does not build");
        Ok(path)
    })()
    .hint("cargo's messages above say why; `libc6-dev` holds the static C library")
}
