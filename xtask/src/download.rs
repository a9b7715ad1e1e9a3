//! Files from the network, fetched once, kept by their hash and always checked.

use std::path::PathBuf;

use anyhow::{Context, Result, ensure};

use crate::cache::Cache;
use crate::hash;
use crate::hint::Hint;
use crate::job::{Job, bound_command};

/// The file at `url` with the given SHA-256, from the cache or the network.
pub fn fetch(cache: &Cache, job: &mut Job, url: &str, sha256: &str) -> Result<PathBuf> {
    let path = cache.root().join("downloads").join(sha256);
    if path.is_file() {
        return Ok(path);
    }
    let name = url.rsplit('/').next().unwrap_or(url);
    job.step(&format!("downloading {name}"))?;
    let aside = tempfile::Builder::new()
        .prefix(".download-")
        .tempfile_in(cache.root().join("downloads"))
        .context("cannot create a file for the download")
        .hint("make room on the file system of the cache, or set REKINDLE_CACHE")?
        .into_temp_path();
    job.run(
        bound_command("curl")
            .args(["--fail", "--silent", "--show-error", "--location", "--retry", "3"])
            .args(["--connect-timeout", "10", "--speed-limit", "1000", "--speed-time", "30", "--output"])
            .arg(&aside)
            .arg(url),
    )?;
    let found = hash::file(&aside)?;
    ensure_hash(url, sha256, &found)?;
    aside.persist(&path).with_context(|| format!("cannot keep {}", path.display()))?;
    Ok(path)
}

fn ensure_hash(url: &str, expected: &str, found: &str) -> Result<()> {
    (|| {
        ensure!(expected == found, "{url} has sha256 {found}, expected {expected}");
        Ok(())
    })()
    .hint("the file at this address changed or was damaged on the way; do not use it, check the recipe")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::hint::render;

    #[test]
    fn a_file_with_another_hash_is_refused_and_not_kept() {
        let dir = tempfile::tempdir().unwrap();
        let cache = Cache::at(dir.path().join("cache")).unwrap();
        let source = dir.path().join("wheel");
        std::fs::write(&source, "abc").unwrap();
        let url = format!("file://{}", source.display());
        let mut job = Job::start(&cache, "demo").unwrap();

        let wrong = "0".repeat(64);
        let error = fetch(&cache, &mut job, &url, &wrong).unwrap_err();
        assert!(render(&error).contains("expected 000"), "{}", render(&error));
        assert_eq!(std::fs::read_dir(cache.root().join("downloads")).unwrap().count(), 0);

        let right = hash::file(&source).unwrap();
        let kept = fetch(&cache, &mut job, &url, &right).unwrap();
        assert_eq!(std::fs::read_to_string(kept).unwrap(), "abc");
    }
}
