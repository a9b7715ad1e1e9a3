//! `cargo xtask agent`: the guest agent as one static binary. Images also get two libraries of ours beside it: the one
//! that warm interpreters load, and the clock of executions that have their own.

use std::path::PathBuf;
use std::process::Command;

use anyhow::{Context, Result, ensure};

use crate::hint::Hint;
use crate::{remap, repo};

/// glibc linked statically: needs no toolchain beyond the one that builds the host side.
pub const TARGET: &str = "x86_64-unknown-linux-gnu";

/// What is built of our own for a guest.
#[derive(Debug)]
pub struct Programs {
    /// The agent.
    pub agent: PathBuf,
    /// The library that warm interpreters load.
    pub native: PathBuf,
    /// The library that shifts the clock of an execution.
    pub clock: PathBuf,
}

/// Builds the agent and says where it is.
pub fn run() -> Result<()> {
    println!("{}", build()?.agent.display());
    Ok(())
}

/// All of it, up to date.
pub fn build() -> Result<Programs> {
    with_agent(build_agent()?)
}

/// All of it, with an agent that was built already.
pub fn with_agent(agent: PathBuf) -> Result<Programs> {
    Ok(Programs {
        agent,
        native: build_library("rootfs/interpreters/native", "native")?,
        clock: build_library("rootfs/clock", "clock")?,
    })
}

fn build_agent() -> Result<PathBuf> {
    let status = cargo()
        .args(["build", "--package", "rekindle-agent", "--profile", "agent", "--target", TARGET])
        .env(remap::RUSTFLAGS, remap::rustflags(&repo::target_dir(), &["-Ctarget-feature=+crt-static"])?)
        .status()
        .context("cannot start cargo")?;
    let path = repo::target_dir().join(TARGET).join("agent/rekindle-agent");
    (|| {
        ensure!(status.success() && path.is_file(), "the agent does not build");
        Ok(path)
    })()
    .hint("cargo's messages above say why; `libc6-dev` holds the static C library")
}

/// Builds what is loaded by programs of a guest, and stands apart from the workspace.
fn build_library(place: &str, name: &str) -> Result<PathBuf> {
    let target = repo::target_dir().join(name);
    let status = cargo()
        .args(["build", "--release", "--locked", "--manifest-path", &format!("{place}/Cargo.toml")])
        .arg("--target-dir")
        .arg(&target)
        .env(remap::RUSTFLAGS, remap::rustflags(&target, &[])?)
        .status()
        .context("cannot start cargo")?;
    let path = target.join(format!("release/librekindle_{name}.so"));
    (|| {
        ensure!(status.success() && path.is_file(), "{place} does not build");
        Ok(path)
    })()
    .hint("cargo's messages above say why")
}

fn cargo() -> Command {
    let mut cargo = Command::new(std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into()));
    cargo.current_dir(repo::root());
    cargo
}
