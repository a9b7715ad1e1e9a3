//! The cassettes of a host.

use std::collections::BTreeMap;
use std::fs;
use std::io;
use std::os::fd::{AsRawFd as _, OwnedFd};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::SystemTime;

use super::entry::Entry;
use super::index::Index;
use super::name::CassetteName;
use super::record::{self, Counted, Limits, Part, Place};
use super::replay::Replay;

/// Cassettes that are kept in memory because somebody replays them.
const MAX_KEPT: usize = 16;

/// Why there is no cassette.
#[derive(Debug, thiserror::Error)]
pub enum CassetteError {
    /// Nobody has recorded it.
    #[error("there is no cassette {name}\nhint: record one under a policy with `record = \"{name}\"`")]
    Missing {
        /// Which.
        name: CassetteName,
    },
    /// A file of it.
    #[error("cannot {operation} {}", path.display())]
    File {
        /// What was tried.
        operation: &'static str,
        /// With which.
        path: PathBuf,
        /// Why not.
        #[source]
        source: io::Error,
    },
}

/// A cassette in numbers.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CassetteSummary {
    /// Which.
    pub name: CassetteName,
    /// Exchanges.
    pub entries: usize,
    /// Bytes of all bodies, each counted once, and of the index.
    pub bytes: u64,
    /// When the last one was recorded, as it is written.
    pub last: Option<String>,
    /// Lines of the index that make no sense.
    pub damaged: u64,
}

/// The cassettes of a host.
#[derive(Debug)]
pub struct Cassettes {
    pub(super) root: PathBuf,
    /// Where that is a way through a descriptor: this one.
    _opened: Option<OwnedFd>,
    limits: Limits,
    /// Those that are replayed, for all sandboxes that do, and the file they were read from.
    kept: Mutex<BTreeMap<CassetteName, (Version, Arc<Index>)>>,
    /// How full those are that were recorded; as many as policies name.
    counts: Mutex<BTreeMap<CassetteName, Arc<Mutex<Option<Counted>>>>>,
}

/// Which state of a file was read.
type Version = (u64, Option<SystemTime>);

impl Cassettes {
    /// Those below a data directory.
    #[must_use]
    pub fn new(data: &Path) -> Self {
        Self::with_limits(data, Limits::default())
    }

    pub(in crate::network) fn with_limits(data: &Path, limits: Limits) -> Self {
        Self::at(data.join("cassettes"), None, limits)
    }

    /// In the worker: those in a directory that it was handed, and that it may have no other way to.
    pub(in crate::network) fn opened(directory: OwnedFd) -> Self {
        let root = PathBuf::from(format!("/proc/self/fd/{}", directory.as_raw_fd()));
        Self::at(root, Some(directory), Limits::default())
    }

    fn at(root: PathBuf, opened: Option<OwnedFd>, limits: Limits) -> Self {
        Self { root, _opened: opened, limits, kept: Mutex::default(), counts: Mutex::default() }
    }

    pub(super) fn place(&self, name: &CassetteName) -> Place {
        let mut counts = self.counts.lock().unwrap_or_else(PoisonError::into_inner);
        let counted = Arc::clone(counts.entry(name.clone()).or_default());
        Place { dir: self.root.join(name.as_str()), counted }
    }

    /// All of them, by name.
    ///
    /// # Errors
    /// When the directory, or an index, cannot be read.
    pub fn list(&self) -> Result<Vec<CassetteSummary>, CassetteError> {
        let file = |source| CassetteError::File { operation: "list", path: self.root.clone(), source };
        let found = match fs::read_dir(&self.root) {
            Ok(found) => found,
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Vec::new()),
            Err(error) => return Err(file(error)),
        };
        let mut names = Vec::new();
        for entry in found {
            // What has no such name is not ours, and in what has no index nothing was recorded yet.
            if let Ok(name) = entry.map_err(file)?.file_name().to_string_lossy().parse()
                && self.require(&name).is_ok()
            {
                names.push(name);
            }
        }
        names.sort();
        names.into_iter().map(|name| self.summary(name)).collect()
    }

    fn summary(&self, name: CassetteName) -> Result<CassetteSummary, CassetteError> {
        let index = self.read(&name)?;
        Ok(CassetteSummary {
            entries: index.entries.len(),
            bytes: index.whole + index.blob_bytes(),
            last: index.entries.last().map(|entry| entry.time.clone()),
            damaged: index.damaged,
            name,
        })
    }

    /// What one holds, in order, each with whether its body is there.
    ///
    /// # Errors
    /// When there is none, or it cannot be read.
    pub fn entries(&self, name: &CassetteName) -> Result<Vec<(Entry, bool)>, CassetteError> {
        let blobs = self.place(name).blobs();
        let index = self.read(name)?;
        let with_body = |entry: Entry| {
            let there = record::has(&blobs, &entry);
            (entry, there)
        };
        Ok(index.entries.into_iter().map(with_body).collect())
    }

    /// Removes what one holds. Who replays it is denied from its next body on.
    ///
    /// # Errors
    /// When there is none, or it cannot be removed.
    pub fn remove(&self, name: &CassetteName) -> Result<(), CassetteError> {
        self.require(name)?;
        let place = self.place(name);
        let file = |source| CassetteError::File { operation: "remove", path: place.dir.clone(), source };
        // Whoever writes to it finishes first; who comes then makes a new one.
        let _lock = place.lock().map_err(file)?;
        // Its place stays, for who records there and may make none.
        fs::remove_file(place.index()).and_then(|()| fs::remove_dir_all(place.blobs())).map_err(file)
    }

    /// That there is one.
    ///
    /// # Errors
    /// When there is none.
    pub fn require(&self, name: &CassetteName) -> Result<(), CassetteError> {
        let there = fs::symlink_metadata(self.place(name).index()).is_ok_and(|facts| facts.is_file());
        if there { Ok(()) } else { Err(CassetteError::Missing { name: name.clone() }) }
    }

    fn read(&self, name: &CassetteName) -> Result<Index, CassetteError> {
        self.require(name)?;
        let path = self.place(name).index();
        Index::read(&path).map_err(|source| CassetteError::File { operation: "read", path, source })
    }

    /// One from its beginning, for one sandbox. Waits for the disk.
    pub(in crate::network) fn replay(&self, name: &CassetteName) -> Result<Replay, CassetteError> {
        let place = self.place(name);
        let facts = fs::metadata(place.index()).ok();
        let version = facts.map_or((0, None), |facts| (facts.len(), facts.modified().ok()));
        let mut kept = self.kept.lock().unwrap_or_else(PoisonError::into_inner);
        let index = match kept.get(name) {
            Some((read, index)) if *read == version => Arc::clone(index),
            _ => {
                let index = Arc::new(self.read(name)?);
                if kept.len() >= MAX_KEPT {
                    kept.retain(|_, (_, index)| Arc::strong_count(index) > 1);
                }
                kept.insert(name.clone(), (version, Arc::clone(&index)));
                index
            }
        };
        Ok(Replay::new(index, place.blobs()))
    }

    /// Begins to record the body of an answer. Waits for the disk.
    pub(in crate::network) fn part(&self, name: &CassetteName) -> io::Result<Part> {
        Part::begin(self.place(name), self.limits)
    }
}
