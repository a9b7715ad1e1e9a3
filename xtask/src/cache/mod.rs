//! The build cache: finished results by key, built aside and renamed into place.
//!
//! ```text
//! <cache>/<kind>/<key>/…      a finished result (always complete: it has a manifest.json)
//! <cache>/<kind>/current      symlink to the newest one
//! <cache>/tmp/<kind>-<key>/   a result being built, owned by whoever holds the lock
//! <cache>/locks/<kind>-<key>  its lock
//! <cache>/logs/               full logs of the builds
//! <cache>/downloads/          files from the network by their sha256
//! <cache>/registry/           packages of PyPI and npm by their sha256, each in a folder
//! ```
//!
//! A lock is held by the process that builds and by the commands it started, so a build
//! whose parent was killed is not joined by a second one until its commands are gone.

mod lock;
mod publish;

use std::fs;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result};

use crate::hint::Hint;

/// The file whose presence says that a result is complete.
pub const MANIFEST: &str = "manifest.json";

/// A build cache on disk.
pub struct Cache {
    root: PathBuf,
}

/// A finished result.
pub struct Built {
    /// Its folder.
    pub dir: PathBuf,
    /// Whether it was built just now.
    pub fresh: bool,
}

impl Cache {
    /// The cache of this machine: `REKINDLE_CACHE`, else the user's cache folder.
    pub fn open() -> Result<Self> {
        let root = locate()?;
        Self::at(root)
    }

    /// The cache in a given folder, which is created.
    pub fn at(root: PathBuf) -> Result<Self> {
        for folder in ["tmp", "locks", "logs", "downloads"] {
            let path = root.join(folder);
            fs::create_dir_all(&path)
                .with_context(|| format!("cannot create {}", path.display()))
                .hint("set REKINDLE_CACHE to a folder you can write to")?;
        }
        // An existing folder says nothing about being writable.
        tempfile::Builder::new()
            .prefix(".writable-")
            .tempfile_in(root.join("tmp"))
            .with_context(|| format!("cannot write to the cache {}", root.display()))
            .hint("set REKINDLE_CACHE to a folder you can write to, or make room on its file system")?;
        Ok(Self { root })
    }

    /// The folder of the cache.
    pub fn root(&self) -> &Path {
        &self.root
    }

    /// Where the full log of a build goes.
    pub fn log_path(&self, name: &str) -> PathBuf {
        self.root.join("logs").join(format!("{name}.log"))
    }

    /// The folder of a finished result, if there is one.
    pub fn find(&self, kind: &str, key: &str) -> Option<PathBuf> {
        let dir = self.root.join(kind).join(key);
        dir.join(MANIFEST).is_file().then_some(dir)
    }
}

fn locate() -> Result<PathBuf> {
    let from = |name: &str| std::env::var_os(name).filter(|value| !value.is_empty()).map(PathBuf::from);
    from("REKINDLE_CACHE")
        .or_else(|| from("XDG_CACHE_HOME").map(|path| path.join("rekindle")))
        .or_else(|| from("HOME").map(|path| path.join(".cache/rekindle")))
        .context("there is no cache folder: neither REKINDLE_CACHE nor HOME is set")
        .hint("set REKINDLE_CACHE to a folder you can write to")
}

#[cfg(test)]
mod tests;
