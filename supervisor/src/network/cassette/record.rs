//! Adds an exchange to a cassette: the body goes beside its place as it comes, and gets its name and its line once all
//! of it is there. What is given up before leaves nothing.

use std::fs::{self, File, Permissions};
use std::io::{self, Seek as _, SeekFrom, Write as _};
use std::os::unix::fs::{MetadataExt as _, PermissionsExt as _};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};

use sha2::{Digest as _, Sha256};
use tempfile::TempPath;
use tokio::io::AsyncWriteExt as _;

use super::access;
use super::entry::{Entry, Key, digest_of};
use super::index::{Index, MAX_INDEX};
use super::replay::blob;

/// What a body is called while it comes.
const PART: &str = ".part-";

/// How much is recorded.
#[derive(Debug, Clone, Copy)]
pub(in crate::network) struct Limits {
    /// Bytes of one body.
    pub(in crate::network) body: u64,
    /// Bytes of one cassette: all bodies and its index.
    pub(in crate::network) bytes: u64,
    /// Exchanges of one cassette.
    pub(in crate::network) entries: usize,
}

impl Default for Limits {
    fn default() -> Self {
        Self { body: 256 << 20, bytes: 4 << 30, entries: 16_384 }
    }
}

/// Why an exchange is not recorded. It is passed on all the same.
#[derive(Debug, thiserror::Error)]
pub(in crate::network) enum NotRecorded {
    #[error("its body is longer than {most} bytes")]
    Body { most: u64 },
    #[error("the cassette is full: at most {entries} exchanges of {bytes} bytes together")]
    Full { entries: usize, bytes: u64 },
    #[error("the answer came before all of the request was sent")]
    Unfinished,
    #[error("it cannot be written: {0}")]
    File(#[from] io::Error),
}

/// Where a cassette is.
#[derive(Debug, Clone)]
pub(super) struct Place {
    pub(super) dir: PathBuf,
    /// What this process has counted last.
    pub(super) counted: Arc<Mutex<Option<Counted>>>,
}

/// How full a cassette is, and of which state of its index that is known.
#[derive(Debug, Clone, Copy)]
pub(super) struct Counted {
    inode: u64,
    whole: u64,
    entries: usize,
    blob_bytes: u64,
}

impl Place {
    pub(super) fn index(&self) -> PathBuf {
        self.dir.join("index.jsonl")
    }

    pub(super) fn blobs(&self) -> PathBuf {
        self.dir.join("blobs")
    }

    /// Which index it has, and how long it is; none is 0.
    fn version(&self) -> io::Result<(u64, u64)> {
        match fs::metadata(self.index()) {
            Ok(facts) => Ok((facts.ino(), facts.len())),
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok((0, 0)),
            Err(error) => Err(error),
        }
    }

    /// Keeps other writers, of other processes too, from it.
    pub(super) fn lock(&self) -> io::Result<File> {
        let path = self.dir.join("lock");
        let file = access::options().write(true).create(true).truncate(false).open(path)?;
        file.lock()?;
        Ok(file)
    }
}

/// A body that is being recorded.
#[derive(Debug)]
pub(in crate::network) struct Part {
    place: Place,
    limits: Limits,
    path: TempPath,
    file: tokio::fs::File,
    hasher: Sha256,
    bytes: u64,
}

impl Part {
    /// Begins. Makes the cassette where there is none; waits for the disk.
    pub(super) fn begin(place: Place, limits: Limits) -> io::Result<Self> {
        let blobs = place.blobs();
        access::make(&blobs)?;
        let mut aside = tempfile::Builder::new();
        let aside = aside.prefix(PART).permissions(Permissions::from_mode(0o640)).tempfile_in(&blobs)?;
        // As long as it is held, nobody takes it for one that a crash has left.
        let _ = aside.as_file().try_lock();
        let (file, path) = aside.into_parts();
        let file = tokio::fs::File::from_std(file);
        Ok(Self { place, limits, path, file, hasher: Sha256::new(), bytes: 0 })
    }

    /// Takes a piece of the body.
    pub(in crate::network) async fn write(&mut self, piece: &[u8]) -> Result<(), NotRecorded> {
        let bytes = self.bytes.saturating_add(piece.len() as u64);
        if bytes > self.limits.body {
            return Err(NotRecorded::Body { most: self.limits.body });
        }
        self.hasher.update(piece);
        self.file.write_all(piece).await?;
        self.bytes = bytes;
        Ok(())
    }

    /// Keeps it as the answer to a request.
    pub(in crate::network) async fn finish(
        mut self,
        key: Key,
        request_bytes: u64,
        status: u16,
        headers: Vec<(String, String)>,
    ) -> Result<(), NotRecorded> {
        self.file.flush().await?;
        let Self { place, limits, path, file, hasher, bytes } = self;
        let file = file.into_std().await;
        let time = jiff::Timestamp::now().to_string();
        let entry = Entry { time, key, request_bytes, status, headers, sha256: digest_of(hasher), bytes };
        let adding = tokio::task::spawn_blocking(move || add(&place, &limits, &entry, path, &file));
        adding.await.map_err(io::Error::other)?
    }
}

/// The body first, then the line that names it.
fn add(
    place: &Place,
    limits: &Limits,
    entry: &Entry,
    part: TempPath,
    body: &File,
) -> Result<(), NotRecorded> {
    let mut line = serde_json::to_vec(entry).map_err(io::Error::other)?;
    line.push(b'\n');
    body.sync_all()?;
    let _lock = place.lock()?;
    let mut counted = place.counted.lock().unwrap_or_else(PoisonError::into_inner);
    let blobs = place.blobs();
    let (inode, whole) = place.version()?;
    let before = match counted.take() {
        Some(counted) if (counted.inode, counted.whole) == (inode, whole) => counted,
        _ => {
            sweep(&blobs)?;
            let index = Index::read(&place.index())?;
            Counted {
                inode,
                whole: index.whole,
                entries: index.entries.len(),
                blob_bytes: index.blob_bytes(),
            }
        }
    };
    let target = blob(&blobs, &entry.sha256);
    let known = target.exists();
    let after = Counted {
        inode,
        whole: before.whole.saturating_add(line.len() as u64),
        entries: before.entries + 1,
        blob_bytes: before.blob_bytes.saturating_add(if known { 0 } else { entry.bytes }),
    };
    let bytes = after.whole.saturating_add(after.blob_bytes);
    if after.entries > limits.entries || bytes > limits.bytes || after.whole > MAX_INDEX {
        *counted = Some(before);
        return Err(NotRecorded::Full { entries: limits.entries, bytes: limits.bytes });
    }
    if !known {
        part.persist(&target).map_err(|error| error.error)?;
        File::open(&blobs)?.sync_all()?;
    }
    append(&place.index(), before.whole, &line)?;
    *counted = Some(Counted { inode: place.version()?.0, ..after });
    Ok(())
}

/// Adds a line after the whole ones; what is torn after them goes.
fn append(path: &Path, whole: u64, line: &[u8]) -> io::Result<()> {
    let mut file = access::options().write(true).create(true).truncate(false).open(path)?;
    file.set_len(whole)?;
    file.seek(SeekFrom::Start(whole))?;
    file.write_all(line)?;
    file.sync_all()?;
    match path.parent() {
        Some(dir) => File::open(dir)?.sync_all(),
        None => Ok(()),
    }
}

/// Removes what a crash has left of bodies.
fn sweep(blobs: &Path) -> io::Result<()> {
    for file in fs::read_dir(blobs)? {
        let file = file?;
        if file.file_name().to_string_lossy().starts_with(PART)
            && File::open(file.path()).is_ok_and(|part| part.try_lock().is_ok())
        {
            let _ = fs::remove_file(file.path());
        }
    }
    Ok(())
}

/// Whether a body is there, as long as it was.
pub(super) fn has(blobs: &Path, entry: &Entry) -> bool {
    fs::symlink_metadata(blob(blobs, &entry.sha256))
        .is_ok_and(|facts| facts.is_file() && facts.len() == entry.bytes)
}
