//! Fetched files by their hash: `registry/<sha256>/<file name>` in the cache.
//!
//! The name is kept because pip reads a wheel's tags off it.

use std::fs;
use std::io::ErrorKind;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result, bail};

use crate::cache::Cache;
use crate::hash;
use crate::hint::Hint;

/// What a file must be, and what people call it.
pub struct Wanted<'a> {
    pub name: &'a str,
    pub version: &'a str,
    pub sha256: &'a str,
}

/// The file with this hash, if it was fetched before.
pub fn find(cache: &Cache, sha256: &str) -> Option<PathBuf> {
    let dir = cache.root().join("registry").join(sha256);
    fs::read_dir(dir).ok()?.next()?.ok().map(|entry| entry.path())
}

/// Keeps the files of `dir` that are wanted; that one of them is not there is an error.
pub fn keep(cache: &Cache, dir: &Path, wanted: &[Wanted<'_>]) -> Result<()> {
    let mut found = Vec::new();
    for entry in fs::read_dir(dir).with_context(|| format!("cannot read {}", dir.display()))? {
        let path = entry?.path();
        if path.is_file() {
            found.push((hash::file(&path)?, path));
        }
    }
    for Wanted { name, version, sha256 } in wanted {
        let Some((_, path)) = found.iter().find(|(hash, _)| hash == sha256) else {
            let hashes: Vec<&str> = found.iter().map(|(hash, _)| hash.as_str()).collect();
            return (|| bail!("no file of {name} {version} has sha256 {sha256}, only {}", hashes.join(", ")))()
                .hint("the package changed or was damaged on the way; do not use it, check the recipe");
        };
        publish(cache, path, sha256)?;
    }
    Ok(())
}

/// Makes a checked file visible in one step; one that somebody else kept meanwhile is the same.
fn publish(cache: &Cache, path: &Path, sha256: &str) -> Result<()> {
    let folder = path.with_file_name(sha256);
    let kept = cache.root().join("registry").join(sha256);
    let name = path.file_name().context("a download has no name")?;
    fs::create_dir_all(cache.root().join("registry"))?;
    fs::create_dir(&folder)?;
    fs::rename(path, folder.join(name))?;
    match fs::rename(&folder, &kept) {
        Err(error) if !matches!(error.kind(), ErrorKind::DirectoryNotEmpty | ErrorKind::AlreadyExists) => {
            Err(error).with_context(|| format!("cannot keep {}", kept.display()))
        }
        _ => Ok(()),
    }
}
