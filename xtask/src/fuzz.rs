//! `cargo xtask fuzz`: every fuzz target for a while, with libFuzzer.
//!
//! The corpora are committed; what libFuzzer finds beside them goes to a folder below `target`, so that a run leaves the
//! checkout as it was. An input that breaks a target is left in the crate's `artifacts`: make it a seed, and a test.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result, bail};
use serde::Deserialize;

use crate::hint::Hint;
use crate::repo;

/// The crates of fuzz targets.
const CRATES: [&str; 2] = ["protocol/fuzz", "supervisor/fuzz"];
/// Largest input: what is larger is refused elsewhere, or no different.
const MAX_INPUT: &str = "-max_len=8192";

/// For how long, and what.
#[derive(clap::Args)]
pub struct Args {
    /// Minutes for all targets together
    #[arg(long, default_value_t = 10)]
    minutes: u64,
    /// Only the target of this name; may be given several times
    #[arg(long, value_name = "NAME")]
    only: Vec<String>,
    /// Show the targets, and run none
    #[arg(long)]
    list: bool,
}

#[derive(Deserialize)]
struct Manifest {
    bin: Vec<Bin>,
}

#[derive(Deserialize)]
struct Bin {
    name: String,
}

/// One target: its crate and its name.
struct Target {
    dir: &'static str,
    name: String,
}

/// Runs the targets one after the other; an error means that one broke.
pub fn run(args: &Args) -> Result<()> {
    let root = repo::root();
    let mut targets = targets(&root)?;
    if let Some(unknown) = args.only.iter().find(|name| targets.iter().all(|target| target.name != **name)) {
        bail!("there is no fuzz target {unknown:?}\nhint: `cargo xtask fuzz --list` shows all");
    }
    targets.retain(|target| args.only.is_empty() || args.only.contains(&target.name));
    if args.list {
        for Target { dir, name } in &targets {
            println!("{name} ({dir})");
        }
        return Ok(());
    }
    let installed = Command::new("cargo").args(["+nightly", "fuzz", "--version"]).output();
    if !installed.is_ok_and(|output| output.status.success()) {
        bail!(
            "fuzzing needs a nightly compiler and cargo-fuzz\n\
             hint: rustup toolchain install nightly && cargo install --locked cargo-fuzz"
        );
    }
    let seconds = (args.minutes * 60 / targets.len() as u64).max(1);
    for target in &targets {
        println!("==> {} for {seconds} s", target.name);
        fuzz(&root, target, seconds)?;
    }
    println!("{} targets, {seconds} s each: nothing broke", targets.len());
    Ok(())
}

fn targets(root: &Path) -> Result<Vec<Target>> {
    let mut targets = Vec::new();
    for dir in CRATES {
        let path = root.join(dir).join("Cargo.toml");
        let text = fs::read_to_string(&path).with_context(|| format!("cannot read {}", path.display()))?;
        let manifest: Manifest = toml::from_str(&text).with_context(|| format!("{dir} is not understood"))?;
        targets.extend(manifest.bin.into_iter().map(|bin| Target { dir, name: bin.name }));
    }
    Ok(targets)
}

fn fuzz(root: &Path, target: &Target, seconds: u64) -> Result<()> {
    let found = repo::target_dir().join("fuzz-corpus").join(&target.name);
    fs::create_dir_all(&found).with_context(|| format!("cannot create {}", found.display()))?;
    let seeds = root.join(target.dir).join("corpus").join(&target.name);
    let status = Command::new("cargo")
        // A crate that is built with sanitizers shares nothing with the workspace.
        .env_remove("CARGO_TARGET_DIR")
        .current_dir(root.join(target.dir))
        .args(["+nightly", "fuzz", "run", "--fuzz-dir", ".", &target.name])
        .args([found, seeds])
        .arg("--")
        .args([MAX_INPUT, &format!("-max_total_time={seconds}")])
        .status()
        .context("cannot start cargo fuzz")?;
    if !status.success() {
        let artifacts: PathBuf = Path::new(target.dir).join("artifacts").join(&target.name);
        return Err(anyhow::anyhow!("{} broke", target.name))
            .hint(format!("the input is in {}: make it a seed, and a test", artifacts.display()));
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_target_has_seeds_and_every_corpus_a_target() {
        let root = repo::root();
        let targets = targets(&root).unwrap();
        for Target { dir, name } in &targets {
            assert!(root.join(dir).join("fuzz_targets").join(format!("{name}.rs")).is_file(), "{name}");
            assert!(fs::read_dir(root.join(dir).join("corpus").join(name)).unwrap().count() >= 5, "{name}");
        }
        for dir in CRATES {
            for entry in fs::read_dir(root.join(dir).join("corpus")).unwrap() {
                let name = entry.unwrap().file_name().into_string().unwrap();
                assert!(targets.iter().any(|target| target.dir == dir && target.name == name), "{name}");
            }
        }
    }
}
