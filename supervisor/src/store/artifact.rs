//! Kernels and root images, as `cargo xtask` leaves them in the cache.

use std::fs;
use std::path::{Path, PathBuf};

use serde::Deserialize;

use super::StoreError;
use crate::config::TemplateName;

/// A built file and what it is.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Artifact {
    /// The file, in the directory of its own version: a later build does not change it.
    pub path: PathBuf,
    /// Its SHA-256, from its manifest.
    pub sha256: String,
}

/// The cache of built files.
#[derive(Debug, Clone)]
pub struct Artifacts {
    cache: PathBuf,
}

#[derive(Deserialize)]
struct BuiltManifest {
    sha256: String,
    size_bytes: u64,
}

impl Artifacts {
    /// The artifacts in the cache directory.
    #[must_use]
    pub fn new(cache: &Path) -> Self {
        Self { cache: cache.to_owned() }
    }

    /// The current kernel.
    ///
    /// # Errors
    /// When there is none, or only half of one.
    pub fn kernel(&self) -> Result<Artifact, StoreError> {
        find("the kernel", &self.cache.join("kernel/current"), "vmlinux", "cargo xtask kernel")
    }

    /// The current image of that name.
    ///
    /// # Errors
    /// When there is none, or only half of one.
    pub fn image(&self, name: &TemplateName) -> Result<Artifact, StoreError> {
        let dir = self.cache.join("images").join(name.as_str()).join("current");
        find(&format!("the image {name}"), &dir, "image.erofs", &format!("cargo xtask rootfs {name}"))
    }
}

fn find(what: &str, dir: &Path, file: &str, remedy: &str) -> Result<Artifact, StoreError> {
    let missing = |path: &Path| StoreError::NoArtifact {
        what: what.to_owned(),
        path: path.to_owned(),
        remedy: remedy.to_owned(),
    };
    // `current` is a link that the next build moves.
    let dir = dir.canonicalize().map_err(|_| missing(&dir.join(file)))?;
    let (path, manifest) = (dir.join(file), dir.join("manifest.json"));
    let text = fs::read(&manifest).map_err(|_| missing(&manifest))?;
    let built: BuiltManifest = serde_json::from_slice(&text).map_err(|_| missing(&manifest))?;
    let size = fs::metadata(&path).map_err(|_| missing(&path))?.len();
    if size != built.size_bytes {
        return Err(StoreError::damaged(
            &dir,
            format!("{file} has {size} bytes instead of {}", built.size_bytes),
        ));
    }
    Ok(Artifact { path, sha256: built.sha256 })
}
