//! Kernels and root images, as `cargo xtask` leaves them in the cache and a package brings them.

use std::fs;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use serde::Deserialize;

use super::StoreError;
use crate::config::{Dirs, Installation, TemplateName};

/// A built file and what it is.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Artifact {
    /// The file, in the directory of its own version: a later build does not change it.
    pub path: PathBuf,
    /// Its SHA-256, from its manifest.
    pub sha256: String,
    /// What is installed in it, as `name version`, from its manifest; empty where that does not tell.
    pub packages: Arc<[String]>,
}

/// The directories with built files; the first that has one wins.
#[derive(Debug, Clone)]
pub struct Artifacts {
    places: Vec<PathBuf>,
}

#[derive(Deserialize)]
struct BuiltManifest {
    sha256: String,
    size_bytes: u64,
    #[serde(default)]
    packages: Vec<String>,
}

impl Artifacts {
    /// The artifacts in one directory.
    #[must_use]
    pub fn new(place: &Path) -> Self {
        Self { places: vec![place.to_owned()] }
    }

    /// All artifacts of this host.
    #[must_use]
    pub fn of(dirs: &Dirs) -> Self {
        Self { places: dirs.artifacts() }
    }

    /// The current kernel.
    ///
    /// # Errors
    /// When there is none, or only half of one.
    pub fn kernel(&self) -> Result<Artifact, StoreError> {
        let hint = Installation::of_this_program().kernel_hint();
        self.find("the kernel", Path::new("kernel"), "vmlinux", &hint)
    }

    /// The current image of that name.
    ///
    /// # Errors
    /// When there is none, or only half of one.
    pub fn image(&self, name: &TemplateName) -> Result<Artifact, StoreError> {
        let hint = Installation::of_this_program().image_hint(name);
        self.find(
            &format!("the image {name}"),
            &Path::new("images").join(name.as_str()),
            "image.erofs",
            &hint,
        )
    }

    /// What the first place has; where none has it, it is missing from the last.
    fn find(&self, what: &str, kind: &Path, file: &str, hint: &str) -> Result<Artifact, StoreError> {
        let (last, others) = self.places.split_last().expect("there is always a place");
        for place in others {
            match find(what, &place.join(kind).join("current"), file, hint) {
                Err(StoreError::NoArtifact { .. }) => {}
                found => return found,
            }
        }
        find(what, &last.join(kind).join("current"), file, hint)
    }
}

fn find(what: &str, dir: &Path, file: &str, hint: &str) -> Result<Artifact, StoreError> {
    let missing = |path: &Path| StoreError::NoArtifact {
        what: what.to_owned(),
        path: path.to_owned(),
        hint: hint.to_owned(),
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
    Ok(Artifact { path, sha256: built.sha256, packages: built.packages.into() })
}
