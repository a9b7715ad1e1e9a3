//! A tokens file in use: looked at again when it changed, kept as it was when the new one is no good. Looking may
//! take as long as the disk does, so [`super::TokenRefresh`] does it on a thread of its own.

use std::fs;
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};

use tokio::sync::watch;

use super::{TokenId, Tokens, TokensError};

/// What a reload changed.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Change {
    /// New ids.
    pub added: Vec<TokenId>,
    /// Ids that are gone.
    pub removed: Vec<TokenId>,
    /// Ids whose secret, scopes, tenant, quota or expiry is another.
    pub changed: Vec<TokenId>,
}

impl Change {
    /// Whether it is all the same.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.added.is_empty() && self.removed.is_empty() && self.changed.is_empty()
    }

    fn between(old: &Tokens, new: &Tokens) -> Self {
        let mut change = Self::default();
        for token in new.iter() {
            match old.get(&token.id) {
                None => change.added.push(token.id.clone()),
                Some(before) if before != token => change.changed.push(token.id.clone()),
                Some(_) => {}
            }
        }
        change.removed =
            old.iter().filter(|token| new.get(&token.id).is_none()).map(|token| token.id.clone()).collect();
        change
    }
}

/// What tells one version of the file from another; an atomic rewrite changes the inode.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Stamp {
    inode: u64,
    size: u64,
    modified: (i64, i64),
    changed: (i64, i64),
}

/// A tokens file and what was last read from it.
#[derive(Debug)]
pub struct TokenFile {
    path: PathBuf,
    current: watch::Sender<Arc<Tokens>>,
    seen: Mutex<Option<Stamp>>,
}

impl TokenFile {
    /// Reads the file for the first time.
    ///
    /// # Errors
    /// As [`Tokens::load`]: a service does not start on a bad file.
    pub fn open(path: &Path) -> Result<Self, TokensError> {
        // Before the read, so that a change in between is noticed later.
        let stamp = stamp(path);
        let tokens = Arc::new(Tokens::load(path)?);
        Ok(Self { path: path.to_owned(), current: watch::Sender::new(tokens), seen: Mutex::new(stamp) })
    }

    /// The tokens in force.
    #[must_use]
    pub fn tokens(&self) -> Arc<Tokens> {
        Arc::clone(&self.current.borrow())
    }

    /// The tokens in force, for whoever waits until others are.
    #[must_use]
    pub fn subscribe(&self) -> watch::Receiver<Arc<Tokens>> {
        self.current.subscribe()
    }

    /// Reads the file again, on SIGHUP for one. On an error the old tokens stay in force.
    ///
    /// # Errors
    /// As [`Tokens::load`].
    pub fn reload(&self) -> Result<Change, TokensError> {
        let mut seen = self.seen.lock().unwrap_or_else(PoisonError::into_inner);
        self.reload_locked(&mut seen)
    }

    /// Reads the file again if it changed; `None` when it did not. A bad file is tried, and complained about,
    /// once per version.
    pub fn refresh_if_changed(&self) -> Option<Result<Change, TokensError>> {
        let mut seen = self.seen.lock().unwrap_or_else(PoisonError::into_inner);
        if stamp(&self.path) == *seen {
            return None;
        }
        Some(self.reload_locked(&mut seen))
    }

    fn reload_locked(&self, seen: &mut Option<Stamp>) -> Result<Change, TokensError> {
        *seen = stamp(&self.path);
        let new = Arc::new(Tokens::load(&self.path)?);
        let old = self.current.send_replace(Arc::clone(&new));
        Ok(Change::between(&old, &new))
    }
}

fn stamp(path: &Path) -> Option<Stamp> {
    let data = fs::metadata(path).ok()?;
    Some(Stamp {
        inode: data.ino(),
        size: data.size(),
        modified: (data.mtime(), data.mtime_nsec()),
        changed: (data.ctime(), data.ctime_nsec()),
    })
}
