//! What is in the store, complete or damaged.

use std::fs;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use serde::Deserialize;

use super::StoreError;
use super::manifest::{FORMAT, Manifest};
use super::root::{FILES, MANIFEST, Store, entries};
use crate::config::TemplateName;

/// Longest manifest that is read.
const MAX_MANIFEST: u64 = 64 * 1024;

/// One stored snapshot.
#[derive(Debug)]
pub struct Entry {
    /// The template.
    pub template: TemplateName,
    /// Its directory, named by its digest.
    pub dir: PathBuf,
    /// Its description, or why that cannot be read.
    pub manifest: Result<Manifest, StoreError>,
    /// Bytes it takes on the disk; less than its size, because zeros are holes.
    pub disk_bytes: u64,
}

impl Store {
    /// Every snapshot, by template, oldest first.
    ///
    /// # Errors
    /// When the store cannot be read; a damaged snapshot is an entry, not an error.
    pub fn list(&self) -> Result<Vec<Entry>, StoreError> {
        let mut all = Vec::new();
        for dir in entries(&self.snapshots())? {
            let name = dir.file_name().and_then(|name| name.to_str()).and_then(|name| name.parse().ok());
            if let Some(template) = name {
                all.extend(self.list_template(&template)?);
            }
        }
        Ok(all)
    }

    /// The snapshots of one template, oldest first.
    pub(super) fn list_template(&self, template: &TemplateName) -> Result<Vec<Entry>, StoreError> {
        let mut found: Vec<Entry> = entries(&self.template_dir(template))?
            .into_iter()
            .filter(|dir| dir.is_dir())
            .map(|dir| Entry {
                template: template.clone(),
                manifest: Manifest::read(&dir),
                disk_bytes: FILES.map(|name| allocated(&dir.join(name))).iter().sum(),
                dir,
            })
            .collect();
        found.sort_by_key(|entry| entry.manifest.as_ref().map_or(0, |manifest| manifest.created));
        Ok(found)
    }
}

impl Manifest {
    /// Reads the description in a snapshot's directory.
    pub(super) fn read(dir: &Path) -> Result<Self, StoreError> {
        let path = dir.join(MANIFEST);
        let size = fs::metadata(&path).map_err(StoreError::file("read", &path))?.len();
        if size > MAX_MANIFEST {
            return Err(StoreError::damaged(dir, format!("its manifest has {size} bytes")));
        }
        let text = fs::read(&path).map_err(StoreError::file("read", &path))?;
        let damaged = |error| StoreError::damaged(dir, format!("its manifest is not understood: {error}"));
        // Before anything else of it is read: what else there is depends on it.
        let Numbered { format } = serde_json::from_slice(&text).map_err(damaged)?;
        if format != FORMAT {
            return Err(StoreError::Format { path: dir.to_owned(), format });
        }
        let manifest: Self = serde_json::from_slice(&text).map_err(damaged)?;
        // A manifest that was edited, or a directory that was renamed.
        if dir.file_name().and_then(|name| name.to_str()) != Some(manifest.digest().as_str()) {
            return Err(StoreError::damaged(dir, "its manifest does not belong to its directory"));
        }
        Ok(manifest)
    }
}

/// What every format has.
#[derive(Deserialize)]
struct Numbered {
    format: u32,
}

fn allocated(path: &Path) -> u64 {
    fs::metadata(path).map_or(0, |facts| facts.blocks() * 512)
}
