//! A snapshot being built: a directory aside, renamed into place when it is complete.
//!
//! ```text
//! stage ──▶ files written by an engine ──commit──▶ hashed, described, synced, renamed
//!    └──(dropped, or the process killed)──▶ removed, when nobody writes into it any more or by the next command
//! ```

use std::fs::{self, File, OpenOptions, Permissions};
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{SystemTime, UNIX_EPOCH};

use super::load::Snapshot;
use super::lock::FileLock;
use super::manifest::{FORMAT, Inputs, Machine, Manifest};
use super::root::{FILES, LOCK, MANIFEST, SCRATCH, Store};
use super::{StoreError, digest, load};
use crate::config::TemplateName;
use crate::host::sparse::{self, Grain};

/// A directory for a snapshot to be.
#[derive(Debug)]
pub struct Staging {
    store: Store,
    template: TemplateName,
    dir: StagingDir,
}

/// The directory itself, held by whoever writes into it; the last one removes it.
#[derive(Debug, Clone)]
pub struct StagingDir(Arc<Held>);

#[derive(Debug)]
struct Held {
    path: PathBuf,
    /// Tells other commands that it is in use.
    lock: Mutex<Option<FileLock>>,
}

impl Store {
    /// Makes a directory to build a snapshot of `template` in.
    ///
    /// # Errors
    /// When it cannot be made.
    pub fn stage(&self, template: &TemplateName) -> Result<Staging, StoreError> {
        let _guard = self.guard_staging()?;
        let dir = tempfile::Builder::new()
            .prefix(&format!("{template}-"))
            .tempdir_in(self.staging())
            .map_err(StoreError::file("create a directory in", &self.staging()))?
            .keep();
        let lock = FileLock::try_exclusive(&dir.join(LOCK))?;
        let held = Held { path: dir, lock: Mutex::new(lock) };
        Ok(Staging { store: self.clone(), template: template.clone(), dir: StagingDir(Arc::new(held)) })
    }
}

impl StagingDir {
    /// Where the engine writes `memory` and `state`.
    #[must_use]
    pub fn path(&self) -> &Path {
        &self.0.path
    }

    /// Where the machine to be frozen has its scratch disk.
    #[must_use]
    pub fn scratch(&self) -> PathBuf {
        self.path().join(SCRATCH)
    }
}

impl Staging {
    /// The directory, for who writes into it.
    #[must_use]
    pub fn dir(&self) -> &StagingDir {
        &self.dir
    }

    /// Completes the snapshot and makes it visible. Blocks while it reads all of the memory.
    ///
    /// # Errors
    /// When a file is missing or the disk is full; the directory is removed then.
    pub fn commit(self, inputs: Inputs, machine: Machine, agent: &str) -> Result<Snapshot, StoreError> {
        let dir = self.dir.path();
        let [memory, state, scratch] = FILES.map(|name| dir.join(name));
        for (path, grain) in [(&memory, Grain::Large), (&scratch, Grain::Page)] {
            let opened = OpenOptions::new()
                .read(true)
                .write(true)
                .open(path)
                .map_err(StoreError::file("open", path))?;
            sparse::punch_zeros(&opened, grain).map_err(StoreError::file("make holes in", path))?;
        }
        for path in [&memory, &state, &scratch] {
            fs::set_permissions(path, Permissions::from_mode(0o444))
                .map_err(StoreError::file("protect", path))?;
            sync(path)?;
        }
        let manifest = Manifest {
            format: FORMAT,
            template: self.template.clone(),
            created: SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |since| since.as_secs()),
            agent: agent.to_owned(),
            inputs,
            machine,
            memory: digest::facts(&memory)?,
            state: digest::facts(&state)?,
            scratch: digest::facts(&scratch)?,
        };
        let text = serde_json::to_string_pretty(&manifest).expect("a manifest is always JSON");
        let path = dir.join(MANIFEST);
        fs::write(&path, text + "\n").map_err(StoreError::file("write", &path))?;
        load::stamp(dir)?;
        sync(&path)?;
        sync(dir)?;

        let parent = self.store.template_dir(&self.template);
        fs::create_dir_all(&parent).map_err(StoreError::file("create", &parent))?;
        let place = parent.join(manifest.digest());
        // Released so that the new place can be locked for use; nobody else sees it before the rename.
        let _guard = self.store.guard_staging()?;
        *self.dir.0.lock.lock().unwrap_or_else(PoisonError::into_inner) = None;
        match fs::rename(dir, &place) {
            Ok(()) => sync(&parent)?,
            // The very same content is there already.
            Err(_) if place.join(MANIFEST).is_file() => {}
            Err(error) => return Err(StoreError::file("rename to", &place)(error)),
        }
        Snapshot::open(&place)
    }
}

impl Drop for Held {
    fn drop(&mut self) {
        // Gone already after a commit.
        let _ = fs::remove_dir_all(&self.path);
    }
}

fn sync(path: &Path) -> Result<(), StoreError> {
    File::open(path).and_then(|file| file.sync_all()).map_err(StoreError::file("sync", path))
}
