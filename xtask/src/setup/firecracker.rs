//! The pinned Firecracker release: found, or downloaded and checked.

use std::fs;
use std::path::PathBuf;
use std::process::Command;

use anyhow::Result;
use rekindle_firecracker_release::{MIRROR_ENV, Release, VERSION};

use super::packages::first_line;
use crate::cache::{Cache, MANIFEST};
use crate::download;
use crate::job::Job;

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
        None => Release::pinned(std::env::var(MIRROR_ENV).ok())
            .map_err(Into::into)
            .and_then(|release| download(cache, &release)),
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
        release.unpack(&archive, work)?;
        let manifest = serde_json::json!({ "version": VERSION, "archive_sha256": release.sha256 });
        fs::write(work.join(MANIFEST), format!("{manifest:#}\n"))?;
        Ok(())
    })?;
    job.finish(&format!("release {VERSION}"));
    Ok(built.dir.join("firecracker"))
}

#[cfg(test)]
mod tests;
