//! The package in the lab: its unit under a real systemd, its sandboxes on Firecracker.
//!
//! `xtask/lab/package.sh` is what runs there.

use std::path::Path;
use std::time::Duration;

use anyhow::{Context, Result, ensure};

use super::machine::{Lab, Life};
use super::stage::Stage;
use crate::cache::Cache;
use crate::{repo, setup};

/// The directory in the share, and again in the lab's own memory.
const DIR: &str = "package";
const SCRIPT: &str = "package.sh";
/// A lab that says nothing for so long has broken without a word: the template is built in less.
const SILENCE: Duration = Duration::from_secs(900);

/// How often it is tried in labs that break (docs/lab.md).
const ATTEMPTS: u32 = 2;

/// Installs the package there, starts its unit, runs programs through the service, and removes it again.
pub fn run(cache: &Cache, package: &Path) -> Result<()> {
    // One at a time: they would share the lab.
    let _alone = cache.scratch("lab-tests")?;
    let mut attempt = 1;
    let code = loop {
        match once(cache, package) {
            Err(error) if attempt < ATTEMPTS => {
                eprintln!("lab: it broke, the package is tried again: {error:#}");
            }
            other => break other?,
        }
        attempt += 1;
    };
    ensure!(code == 0, "the package does not work in the lab: its script ended with {code}");
    Ok(())
}

/// The script's exit code; an error where the lab itself failed.
fn once(cache: &Cache, package: &Path) -> Result<i32> {
    let lab = Lab::join(cache, Life::Bound)?;
    let stage = Stage::empty(lab.share().join(DIR));
    stage.monitor(&setup::find_firecracker(cache).context("there is no Firecracker binary")?)?;
    stage.put(package, "bin/rekindle.deb")?;
    stage.put(&repo::root().join("xtask/lab").join(SCRIPT), Path::new("bin").join(SCRIPT))?;
    // Off the shared directory, which is slow to read there.
    let script = format!("cp -r /share/{DIR}/bin /room/{DIR} && bash /room/{DIR}/{SCRIPT}");
    lab.run_within(SILENCE, &script, &mut std::io::stdout(), &mut std::io::stderr())
}
