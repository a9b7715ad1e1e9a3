//! Reads a cassette's index. What is torn or makes no sense is passed over and counted.

use std::collections::{HashMap, HashSet};
use std::io::{self, Read as _};
use std::path::Path;

use super::access;
use super::entry::{Entry, Key};

/// Most bytes of an index: all of it is in memory while it is replayed.
pub(super) const MAX_INDEX: u64 = 64 << 20;

/// An index that was read.
#[derive(Debug, Default)]
pub(super) struct Index {
    pub(super) entries: Vec<Entry>,
    /// Entries of each key, in order.
    by_key: HashMap<Key, Vec<usize>>,
    /// Bytes of it that are whole lines.
    pub(super) whole: u64,
    /// Lines that make no sense.
    pub(super) damaged: u64,
}

impl Index {
    /// Reads it; one that is not there is empty.
    pub(super) fn read(path: &Path) -> io::Result<Self> {
        let mut content = Vec::new();
        match access::options().read(true).open(path) {
            Ok(file) => file.take(MAX_INDEX).read_to_end(&mut content)?,
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Self::default()),
            Err(error) => return Err(error),
        };
        Ok(Self::parse(&content))
    }

    pub(super) fn parse(content: &[u8]) -> Self {
        let mut index = Self::default();
        for line in content.split_inclusive(|byte| *byte == b'\n') {
            // A crash came in between; the next writer cuts it off.
            let Some(line) = line.strip_suffix(b"\n") else { break };
            index.whole += line.len() as u64 + 1;
            match serde_json::from_slice::<Entry>(line) {
                Ok(entry) if entry.is_sound() => {
                    let at = index.entries.len();
                    index.by_key.entry(entry.key.clone()).or_default().push(at);
                    index.entries.push(entry);
                }
                _ => index.damaged += 1,
            }
        }
        index
    }

    /// The entry for the `turn`th request of this key, counted from 0: the last one for all after it.
    pub(super) fn answer(&self, key: &Key, turn: usize) -> Option<&Entry> {
        let of_key = self.by_key.get(key)?;
        let at = of_key.get(turn).or(of_key.last())?;
        self.entries.get(*at)
    }

    /// Bytes of all bodies, each counted once.
    pub(super) fn blob_bytes(&self) -> u64 {
        let mut seen = HashSet::new();
        let once = self.entries.iter().filter(|entry| seen.insert(entry.sha256.as_str()));
        once.map(|entry| entry.bytes).sum()
    }
}
