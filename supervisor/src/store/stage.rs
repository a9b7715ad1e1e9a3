//! A snapshot being built: a directory aside, renamed into place when it is complete.
//!
//! ```text
//! stage ──▶ files written by an engine ──commit──▶ hashed, described, synced, renamed
//!    └──(dropped, or the process killed)──▶ removed, now or by the next command
//! ```

use std::fs::{self, File, OpenOptions, Permissions};
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
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
    dir: PathBuf,
    lock: Option<FileLock>,
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
        Ok(Staging { store: self.clone(), template: template.clone(), dir, lock })
    }
}

impl Staging {
    /// Where the engine writes `memory` and `state`.
    #[must_use]
    pub fn dir(&self) -> &Path {
        &self.dir
    }

    /// Where the machine to be frozen has its scratch disk.
    #[must_use]
    pub fn scratch(&self) -> PathBuf {
        self.dir.join(SCRATCH)
    }

    /// Completes the snapshot and makes it visible. Blocks while it reads all of the memory.
    ///
    /// # Errors
    /// When a file is missing or the disk is full; the directory is removed then.
    pub fn commit(mut self, inputs: Inputs, machine: Machine, agent: &str) -> Result<Snapshot, StoreError> {
        let [memory, state, scratch] = FILES.map(|name| self.dir.join(name));
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
        let path = self.dir.join(MANIFEST);
        fs::write(&path, text + "\n").map_err(StoreError::file("write", &path))?;
        load::stamp(&self.dir)?;
        sync(&path)?;
        sync(&self.dir)?;

        let parent = self.store.template_dir(&self.template);
        fs::create_dir_all(&parent).map_err(StoreError::file("create", &parent))?;
        let place = parent.join(manifest.digest());
        // Released so that the new place can be locked for use; nobody else sees it before the rename.
        let _guard = self.store.guard_staging()?;
        self.lock = None;
        match fs::rename(&self.dir, &place) {
            Ok(()) => sync(&parent)?,
            // The very same content is there already.
            Err(_) if place.join(MANIFEST).is_file() => {}
            Err(error) => return Err(StoreError::file("rename to", &place)(error)),
        }
        Snapshot::open(&place)
    }
}

impl Drop for Staging {
    fn drop(&mut self) {
        // Gone already after a commit.
        let _ = fs::remove_dir_all(&self.dir);
    }
}

fn sync(path: &Path) -> Result<(), StoreError> {
    File::open(path).and_then(|file| file.sync_all()).map_err(StoreError::file("sync", path))
}
