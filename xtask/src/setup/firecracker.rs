//! The pinned Firecracker release: found, or downloaded and checked.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result};

use super::packages::first_line;
use crate::cache::{Cache, MANIFEST};
use crate::download;
use crate::job::{Job, bound_command};

/// The version this project is tested with; 1.16.0 breaks vsock after a restore.
const VERSION: &str = "1.16.1";
/// SHA-256 of the official release archives.
const ARCHIVES: [(&str, &str); 2] = [
    ("x86_64", "382a02a869e4d6d5cb14c40577f9545e8458021ea8b0b2d3fc10ec14d9c242e6"),
    ("aarch64", "8d0e69f6d6f9a1724551f607f18504052c16c1828ee3d4d7b6e6c73380871e0e"),
];

/// Where releases are; a mirror of it is named in `REKINDLE_FIRECRACKER_MIRROR`.
const RELEASES: &str = "https://github.com/firecracker-microvm/firecracker/releases/download";

/// The one archive to download.
struct Release {
    base: String,
    machine: String,
    sha256: String,
}

impl Release {
    /// The pinned release for this machine.
    fn pinned() -> Result<Self> {
        let machine = std::env::consts::ARCH;
        let (_, sha256) = ARCHIVES
            .iter()
            .find(|(name, _)| *name == machine)
            .with_context(|| format!("there is no Firecracker release for {machine}"))?;
        let mirror = std::env::var("REKINDLE_FIRECRACKER_MIRROR").ok().filter(|base| !base.is_empty());
        let base = mirror.unwrap_or_else(|| RELEASES.to_owned());
        Ok(Self { base, machine: machine.to_owned(), sha256: (*sha256).to_owned() })
    }

    fn url(&self) -> String {
        let base = self.base.trim_end_matches('/');
        format!("{base}/v{VERSION}/firecracker-v{VERSION}-{}.tgz", self.machine)
    }
}

/// A Firecracker binary that is already here: `REKINDLE_FIRECRACKER`, `PATH`, the cache.
pub fn find(cache: &Cache) -> Option<PathBuf> {
    let named = std::env::var_os("REKINDLE_FIRECRACKER").map(PathBuf::from);
    let path = std::env::var_os("PATH").unwrap_or_default();
    let mut places = named.into_iter().chain(std::env::split_paths(&path).map(|dir| dir.join("firecracker")));
    places
        .find(|place| place.is_file())
        .or_else(|| cache.find("firecracker", VERSION).map(|dir| dir.join("firecracker")))
}

/// Finds or downloads it, and says in one line how that went.
pub fn report(cache: &Cache, dry_run: bool) -> Result<String> {
    let found = match find(cache) {
        None if dry_run => return Ok("not found".to_owned()),
        None => Release::pinned().and_then(|release| download(cache, &release)),
        Some(path) => Ok(path),
    };
    match found {
        Ok(path) => {
            let version = first_line(Command::new(&path).arg("--version"))?;
            Ok(format!("{} ({version})", path.display()))
        }
        // Not fatal: the portable engine needs none, and its tests are reported skips.
        Err(error) => Ok(regret(&error)),
    }
}

fn regret(error: &anyhow::Error) -> String {
    let reason = format!("{error:#}");
    let reason = reason.lines().find(|line| line.contains("curl:")).or(reason.lines().next());
    format!(
        "not found, and release {VERSION} cannot be downloaded: {}\n             put the binary on \
         PATH or name it in REKINDLE_FIRECRACKER; without it the firecracker engine is unavailable",
        reason.unwrap_or_default()
    )
}

fn download(cache: &Cache, release: &Release) -> Result<PathBuf> {
    let mut job = Job::start(cache, "firecracker")?;
    let archive = download::fetch(cache, &mut job, &release.url(), &release.sha256)?;
    let built = cache.build("firecracker", VERSION, |work| {
        job.step("unpacking")?;
        job.run(
            bound_command("tar").arg("-xzf").arg(&archive).arg("-C").arg(work).arg("--strip-components=1"),
        )?;
        keep(work, &release.machine, &release.sha256)
    })?;
    job.finish(&format!("release {VERSION}"));
    Ok(built.dir.join("firecracker"))
}

/// Leaves only the two binaries, under the names they are looked for.
fn keep(work: &Path, machine: &str, sha256: &str) -> Result<()> {
    for name in ["firecracker", "jailer"] {
        let released = work.join(format!("{name}-v{VERSION}-{machine}"));
        fs::rename(&released, work.join(name)).with_context(|| format!("the archive holds no {name}"))?;
    }
    for entry in fs::read_dir(work)? {
        let path = entry?.path();
        if path.is_file() && !["firecracker", "jailer"].iter().any(|name| path.ends_with(name)) {
            fs::remove_file(path)?;
        }
    }
    let manifest = serde_json::json!({ "version": VERSION, "archive_sha256": sha256 });
    fs::write(work.join(MANIFEST), format!("{manifest:#}\n"))?;
    Ok(())
}

#[cfg(test)]
mod tests;
