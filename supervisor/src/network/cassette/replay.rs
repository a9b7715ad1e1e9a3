//! One sandbox's way through a cassette: of several answers to the same request each comes in its turn, and the last one
//! from then on.

use std::collections::HashMap;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};

use super::entry::{Entry, Key};
use super::index::Index;

/// How far one sandbox is. It has the cassette as it was when it first asked for it.
#[derive(Debug)]
pub(in crate::network) struct Replay {
    index: Arc<Index>,
    blobs: PathBuf,
    /// Requests so far, of keys that there is an answer for.
    turns: Mutex<HashMap<Key, usize>>,
}

impl Replay {
    pub(super) fn new(index: Arc<Index>, blobs: PathBuf) -> Self {
        Self { index, blobs, turns: Mutex::default() }
    }

    /// The answer to the next request of this key, and the file with its body.
    pub(in crate::network) fn next(&self, key: &Key) -> Option<(&Entry, PathBuf)> {
        let mut turns = self.turns.lock().unwrap_or_else(PoisonError::into_inner);
        let turn = turns.get(key).copied().unwrap_or(0);
        let entry = self.index.answer(key, turn)?;
        turns.insert(key.clone(), turn.saturating_add(1));
        Some((entry, blob(&self.blobs, &entry.sha256)))
    }
}

/// The file of a body.
pub(super) fn blob(blobs: &Path, sha256: &str) -> PathBuf {
    blobs.join(sha256)
}
