//! A tokens file in use: looked at again when it changed, kept as it was when the new one is no good. Looking may
//! take as long as the disk does, so [`TokenFile::keep_current`] does it on a thread of its own.

use std::io;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};

use tokio::sync::watch;

use super::{TokenId, Tokens, TokensError};
use crate::config::refresh::{Refresh, Stamp};

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
        let stamp = Stamp::of(path);
        let tokens = Arc::new(Tokens::load(path)?);
        Ok(Self { path: path.to_owned(), current: watch::Sender::new(tokens), seen: Mutex::new(stamp) })
    }

    /// Keeps the tokens current until what this returns is dropped: looks each second, and reads when asked.
    ///
    /// # Errors
    /// When there can be no thread.
    pub fn keep_current(self: &Arc<Self>) -> io::Result<Refresh> {
        let file = Arc::clone(self);
        Refresh::start("tokens", move |asked| {
            let read = if asked { Some(file.reload()) } else { file.refresh_if_changed() };
            match read {
                Some(Ok(change)) => tracing::info!(
                    added = change.added.len(),
                    removed = change.removed.len(),
                    changed = change.changed.len(),
                    "the tokens were read again"
                ),
                Some(Err(error)) => {
                    tracing::error!(%error, "the tokens could not be read again; the old ones count");
                }
                None => {}
            }
        })
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
        if Stamp::of(&self.path) == *seen {
            return None;
        }
        Some(self.reload_locked(&mut seen))
    }

    fn reload_locked(&self, seen: &mut Option<Stamp>) -> Result<Change, TokensError> {
        *seen = Stamp::of(&self.path);
        let new = Arc::new(Tokens::load(&self.path)?);
        let old = self.current.send_replace(Arc::clone(&new));
        Ok(Change::between(&old, &new))
    }
}
