//! Commands of cargo, and whether the toolchain has them.

use std::process::Command;

use super::tally::Tally;
use crate::repo;

/// A command of cargo's in the checkout.
pub fn cargo(args: &[&str]) -> Command {
    let mut command = Command::new(std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into()));
    command.current_dir(repo::root()).args(args);
    // What `cargo run` set for this program would make the workspace build anew.
    for (name, _) in std::env::vars_os() {
        let text = name.to_string_lossy();
        if text.starts_with("CARGO_PKG_") || text.starts_with("CARGO_MANIFEST_") {
            command.env_remove(&name);
        }
    }
    command
}

/// Runs a cargo command that comes as a component of the toolchain.
pub fn check(tally: &mut Tally, verb: &str, args: &[&str]) {
    let name = format!("cargo {verb}");
    eprintln!("==> {name}");
    if !component(verb) {
        tally.unavailable(&name, "this toolchain does not have it and rustup cannot add it");
        return;
    }
    let passed = cargo(&[verb]).args(args).status().is_ok_and(|status| status.success());
    tally.record(&name, passed);
}

/// Whether the toolchain has this command, after trying to add it.
fn component(verb: &str) -> bool {
    let there = || cargo(&[verb, "--version"]).output().is_ok_and(|output| output.status.success());
    if there() {
        return true;
    }
    let package = if verb == "fmt" { "rustfmt" } else { verb };
    let _ = Command::new("rustup").current_dir(repo::root()).args(["component", "add", package]).status();
    there()
}
