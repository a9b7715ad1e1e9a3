//! Python wheels, fetched by pip.

use std::fs;
use std::path::PathBuf;
use std::process::Command;

use anyhow::{Context, Result};

use super::store::{self, Wanted};
use crate::cache::Cache;
use crate::job::{Job, bound_command};
use crate::recipe::Pin;

/// The newest C library a wheel may ask for: that of Debian 13, which images are made of.
const GLIBC_MINOR: u32 = 41;

/// The wheels of these pins, in their order, from the cache or the index pip is configured for.
pub fn fetch(cache: &Cache, job: &mut Job, python: &str, pins: &[&Pin]) -> Result<Vec<PathBuf>> {
    let missing: Vec<Wanted<'_>> = pins
        .iter()
        .filter(|pin| store::find(cache, &pin.sha256).is_none())
        .map(|pin| Wanted { name: &pin.name, version: &pin.version, sha256: &pin.sha256 })
        .collect();
    if !missing.is_empty() {
        let names: Vec<&str> = missing.iter().map(|wanted| wanted.name).collect();
        job.step(&format!("downloading {}", names.join(", ")))?;
        let aside = cache.scratch("registry-pip")?;
        let list = aside.path().join("requirements.txt");
        fs::write(&list, requirements(&missing))?;
        job.run(pip(python).arg("--dest").arg(aside.path()).arg("--requirement").arg(&list))?;
        store::keep(cache, aside.path(), &missing)?;
    }
    pins.iter()
        .map(|pin| store::find(cache, &pin.sha256).with_context(|| format!("{} is gone again", pin.name)))
        .collect()
}

/// One line per wheel. The hash picks the file among those of its version.
fn requirements(wanted: &[Wanted<'_>]) -> String {
    let line = |w: &Wanted<'_>| format!("{}=={} --hash=sha256:{}\n", w.name, w.version, w.sha256);
    wanted.iter().map(line).collect()
}

/// pip, told that the wheels are for a guest and not for this machine.
fn pip(python: &str) -> Command {
    let mut command = bound_command("pip3");
    command
        .args(["download", "--no-deps", "--require-hashes", "--only-binary=:all:"])
        .args(["--implementation", "cp", "--python-version", python])
        .args(["--disable-pip-version-check", "--no-input", "--no-cache-dir", "--progress-bar", "off"])
        .args(["--retries", "2"]);
    // pip takes these names as they stand: a newer one does not stand for the older ones. The last one
    // does; it stands for everything before 2.17.
    for minor in (17..=GLIBC_MINOR).rev() {
        command.args(["--platform", &format!("manylinux_2_{minor}_x86_64")]);
    }
    command.args(["--platform", "manylinux2014_x86_64"]);
    command
}
