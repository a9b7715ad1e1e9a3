//! A snapshot in use: found, checked, and locked against removal.
//!
//! Reading gigabytes before every restore would defeat the purpose, so a full verification leaves a stamp
//! with the files' identity, size and times; as long as they are the same, the files are.

use std::fs;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::sync::OnceLock;

use serde::{Deserialize, Serialize};

use super::StoreError;
use super::compat::DifferenceKind;
use super::lock::FileLock;
use super::manifest::{Inputs, Manifest};
use super::root::{FILES, LOCK, SCRATCH, Store};
use super::working_set::WorkingSet;
use crate::config::TemplateName;

/// A complete snapshot that nobody can remove while this exists.
#[derive(Debug)]
pub struct Snapshot {
    dir: PathBuf,
    manifest: Manifest,
    pub(super) working_set: OnceLock<Option<WorkingSet>>,
    _lock: FileLock,
}

const STAMP: &str = "verified.json";

impl Store {
    /// The newest snapshot of `template` that was made from exactly `inputs`, checked.
    ///
    /// # Errors
    /// When there is none, none fits (the error names what differs), or its files are damaged.
    pub fn load(&self, template: &TemplateName, inputs: &Inputs) -> Result<Snapshot, StoreError> {
        // How the newest of this engine's own differs says more than how another engine's does.
        let (mut own, mut others) = (None, None);
        for entry in self.list_template(template)?.into_iter().rev() {
            let Ok(manifest) = entry.manifest else { continue };
            let found = manifest.inputs.differences(inputs);
            if !found.is_empty() {
                let other = found.iter().any(|one| one.kind == DifferenceKind::Engine);
                if other { &mut others } else { &mut own }.get_or_insert(found);
                continue;
            }
            let snapshot = match Snapshot::open(&entry.dir) {
                Ok(snapshot) => snapshot,
                // Removed since it was listed.
                Err(StoreError::InUse { .. } | StoreError::File { .. }) if !entry.dir.exists() => continue,
                Err(error) => return Err(error),
            };
            snapshot.check()?;
            return Ok(snapshot);
        }
        let template = template.clone();
        Err(match own.or(others) {
            Some(differences) => StoreError::Incompatible { template, differences },
            None => StoreError::Missing { template },
        })
    }
}

impl Snapshot {
    pub(super) fn open(dir: &Path) -> Result<Self, StoreError> {
        let Some(lock) = FileLock::try_shared(&dir.join(LOCK))? else {
            return Err(StoreError::InUse { path: dir.to_owned() });
        };
        let manifest = Manifest::read(dir)?;
        Ok(Self { dir: dir.to_owned(), manifest, working_set: OnceLock::new(), _lock: lock })
    }

    /// Its description.
    #[must_use]
    pub fn manifest(&self) -> &Manifest {
        &self.manifest
    }

    /// Its directory, which holds `memory` and `state`.
    #[must_use]
    pub fn dir(&self) -> &Path {
        &self.dir
    }

    /// Its scratch disk, of which every clone gets a copy.
    #[must_use]
    pub fn scratch(&self) -> PathBuf {
        self.dir.join(SCRATCH)
    }

    /// The cheap check, and the full one where it is not enough.
    fn check(&self) -> Result<(), StoreError> {
        for (name, facts) in self.manifest.files() {
            let path = self.dir.join(name);
            let size = fs::metadata(&path).map_err(StoreError::file("read", &path))?.len();
            if size != facts.size {
                let what = format!("{name} has {size} bytes instead of {}", facts.size);
                return Err(StoreError::damaged(&self.dir, what));
            }
        }
        if read_stamp(&self.dir).is_some_and(|stamp| Some(stamp) == Stamp::of(&self.dir)) {
            return Ok(());
        }
        self.verify()?;
        // Someone else's snapshot may be readable and not writable; it is verified again next time.
        let _ = stamp(&self.dir);
        Ok(())
    }
}

#[derive(Debug, PartialEq, Eq, Serialize, Deserialize)]
struct Stamp {
    files: [Seen; FILES.len()],
}

/// A file that has not been written to since looks the same. The change time cannot be set by a program.
#[derive(Debug, PartialEq, Eq, Serialize, Deserialize)]
struct Seen {
    inode: u64,
    size: u64,
    modified: (i64, i64),
    changed: (i64, i64),
}

impl Seen {
    fn of(path: &Path) -> Option<Self> {
        let facts = fs::metadata(path).ok()?;
        Some(Self {
            inode: facts.ino(),
            size: facts.len(),
            modified: (facts.mtime(), facts.mtime_nsec()),
            changed: (facts.ctime(), facts.ctime_nsec()),
        })
    }
}

impl Stamp {
    fn of(dir: &Path) -> Option<Self> {
        let [memory, state, scratch] = FILES.map(|name| Seen::of(&dir.join(name)));
        Some(Self { files: [memory?, state?, scratch?] })
    }
}

fn read_stamp(dir: &Path) -> Option<Stamp> {
    serde_json::from_slice(&fs::read(dir.join(STAMP)).ok()?).ok()
}

/// Records that the files are what the manifest says, as they are now.
pub(super) fn stamp(dir: &Path) -> Result<(), StoreError> {
    let path = dir.join(STAMP);
    let Some(stamp) = Stamp::of(dir) else { return Ok(()) };
    let text = serde_json::to_vec(&stamp).expect("numbers are always JSON");
    // Written aside: two commands may do this at once.
    let aside = tempfile::NamedTempFile::new_in(dir).map_err(StoreError::file("create a file in", dir))?;
    fs::write(aside.path(), text).map_err(StoreError::file("write", aside.path()))?;
    aside.persist(&path).map_err(|error| StoreError::file("rename to", &path)(error.error))?;
    Ok(())
}
