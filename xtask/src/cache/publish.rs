//! Building a result aside and making it visible in one step.

use std::fs;
use std::io::ErrorKind;
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};
use std::time::SystemTime;

use anyhow::{Context, Result};

use super::lock::Lock;
use super::{Built, Cache, MANIFEST};
use crate::hint::Hint;
use crate::hygiene::no_mounts_under;

/// Results of one kind that stay: the current one and two to go back to.
const KEEP: usize = 3;

impl Cache {
    /// The result for `key`, built by `make` in a folder of its own unless it is there.
    ///
    /// `make` leaves a complete result, [`MANIFEST`] included, in the folder it is given.
    /// When it fails, or the process dies, nothing becomes visible.
    pub fn build(&self, kind: &str, key: &str, make: impl FnOnce(&Path) -> Result<()>) -> Result<Built> {
        if let Some(dir) = self.find(kind, key) {
            self.point_current(kind, key)?;
            return Ok(Built { dir, fresh: false });
        }
        let name = format!("{}-{key}", kind.replace('/', "-"));
        let _lock = self.lock(&name)?;
        if let Some(dir) = self.find(kind, key) {
            self.point_current(kind, key)?;
            return Ok(Built { dir, fresh: false });
        }
        self.remove_stale()?;
        let work = self.work_dir(&name)?;
        let outcome = make(&work).and_then(|()| self.publish(kind, key, &work));
        if outcome.is_err() {
            remove_tree(&work)?;
        }
        let dir = outcome?;
        self.point_current(kind, key)?;
        self.prune(kind)?;
        Ok(Built { dir, fresh: true })
    }

    /// A folder for work whose result is not kept; it goes away with the guard.
    pub fn scratch(&self, name: &str) -> Result<Scratch> {
        let lock = self.lock(name)?;
        Ok(Scratch { dir: self.work_dir(name)?, _lock: lock })
    }

    /// Removes the work folders of builds that were interrupted.
    pub fn remove_stale(&self) -> Result<()> {
        let tmp = self.root.join("tmp");
        for entry in fs::read_dir(&tmp).with_context(|| format!("cannot read {}", tmp.display()))? {
            let entry = entry?;
            let name = entry.file_name().to_string_lossy().into_owned();
            // A lock that can be had means that its builder is gone.
            if entry.path().is_dir() && self.try_lock(&name)?.is_some() {
                remove_tree(&entry.path())?;
            }
        }
        Ok(())
    }

    /// Removes all results of a kind but the `keep` newest; the current one always stays.
    pub fn prune_to(&self, kind: &str, keep: usize) -> Result<()> {
        let dir = self.root.join(kind);
        let current = fs::read_link(dir.join("current")).unwrap_or_default();
        let mut results: Vec<(SystemTime, PathBuf)> = Vec::new();
        for entry in fs::read_dir(&dir).into_iter().flatten() {
            let path = entry?.path();
            let modified = fs::metadata(path.join(MANIFEST)).and_then(|meta| meta.modified());
            if let (Ok(modified), false) = (modified, path.is_symlink()) {
                results.push((modified, path));
            }
        }
        results.sort();
        let excess = results.len().saturating_sub(keep);
        for (_, path) in results.into_iter().take(excess) {
            if path.file_name() != Some(current.as_os_str()) {
                // Without its manifest it is no result any more, whatever happens next.
                fs::remove_file(path.join(MANIFEST))?;
                remove_tree(&path)?;
            }
        }
        Ok(())
    }

    fn prune(&self, kind: &str) -> Result<()> {
        self.prune_to(kind, KEEP)
    }

    fn work_dir(&self, name: &str) -> Result<PathBuf> {
        let work = self.root.join("tmp").join(name);
        remove_tree(&work)?;
        fs::create_dir(&work)
            .with_context(|| format!("cannot create {}", work.display()))
            .hint("make room on the file system of the cache, or set REKINDLE_CACHE")?;
        Ok(work)
    }

    fn publish(&self, kind: &str, key: &str, work: &Path) -> Result<PathBuf> {
        anyhow::ensure!(work.join(MANIFEST).is_file(), "the build of {kind} left no {MANIFEST}");
        let parent = self.root.join(kind);
        fs::create_dir_all(&parent).with_context(|| format!("cannot create {}", parent.display()))?;
        let dir = parent.join(key);
        // What is there has no manifest: the remains of an interrupted removal.
        remove_tree(&dir)?;
        fs::rename(work, &dir).with_context(|| format!("cannot publish {}", dir.display()))?;
        Ok(dir)
    }

    fn point_current(&self, kind: &str, key: &str) -> Result<()> {
        let current = self.root.join(kind).join("current");
        if fs::read_link(&current).is_ok_and(|target| target == Path::new(key)) {
            return Ok(());
        }
        let aside = self.root.join(kind).join(format!(".current-{}", std::process::id()));
        let _ = fs::remove_file(&aside);
        symlink(key, &aside)
            .and_then(|()| fs::rename(&aside, &current))
            .with_context(|| format!("cannot update {}", current.display()))
    }
}

/// See [`Cache::scratch`].
pub struct Scratch {
    dir: PathBuf,
    _lock: Lock,
}

impl Scratch {
    /// The folder.
    pub fn path(&self) -> &Path {
        &self.dir
    }
}

impl Drop for Scratch {
    fn drop(&mut self) {
        // What stays because of an error is removed by the next build.
        let _ = remove_tree(&self.dir);
    }
}

/// Removes a folder that may not exist; never through something mounted in it.
fn remove_tree(path: &Path) -> Result<()> {
    no_mounts_under(path).hint("unmount it, and try again")?;
    match fs::remove_dir_all(path) {
        Err(error) if error.kind() != ErrorKind::NotFound => {
            Err(error).with_context(|| format!("cannot remove {}", path.display()))
        }
        _ => Ok(()),
    }
}
