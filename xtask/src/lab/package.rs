//! The package in the lab: its unit under a real systemd, its sandboxes on Firecracker.
//!
//! `xtask/lab/package.sh` is what runs there.

use std::path::Path;

use anyhow::{Context, Result, ensure};

use super::machine::{Lab, Life};
use super::stage::Stage;
use crate::cache::Cache;
use crate::{repo, setup};

/// The directory in the share, and again in the lab's own memory.
const DIR: &str = "package";
const SCRIPT: &str = "package.sh";

/// Installs the package there, starts its unit, runs programs through the service, and removes it again.
pub fn run(cache: &Cache, package: &Path) -> Result<()> {
    // One at a time: they would share the lab.
    let _alone = cache.scratch("lab-tests")?;
    let lab = Lab::join(cache, Life::Bound)?;
    let stage = Stage::empty(lab.share().join(DIR));
    stage.monitor(&setup::find_firecracker(cache).context("there is no Firecracker binary")?)?;
    stage.put(package, "bin/rekindle.deb")?;
    stage.put(&repo::root().join("xtask/lab").join(SCRIPT), Path::new("bin").join(SCRIPT))?;
    // Off the shared directory, which is slow to read there.
    let script = format!("cp -r /share/{DIR}/bin /room/{DIR} && bash /room/{DIR}/{SCRIPT}");
    let code = lab.run(&script, &mut std::io::stdout(), &mut std::io::stderr())?;
    ensure!(code == 0, "the package does not work in the lab: its script ended with {code}");
    Ok(())
}
