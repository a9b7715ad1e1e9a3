//! A thread that looks at files: each second, and at once when asked to.
//!
//! A stalled mount holds up this thread and nobody else, and nothing waits for the thread when the service ends.

use std::fs;
use std::io;
use std::os::unix::fs::MetadataExt as _;
use std::path::Path;
use std::sync::mpsc::{RecvTimeoutError, SyncSender, sync_channel};
use std::thread;
use std::time::Duration;

/// How often it looks.
const LOOK_EVERY: Duration = Duration::from_secs(1);

/// What tells one version of a file from another; an atomic rewrite changes the inode.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Stamp {
    inode: u64,
    size: u64,
    modified: (i64, i64),
    changed: (i64, i64),
}

impl Stamp {
    /// That of a file; `None` when there is none.
    #[must_use]
    pub fn of(path: &Path) -> Option<Self> {
        let data = fs::metadata(path).ok()?;
        Some(Self {
            inode: data.ino(),
            size: data.size(),
            modified: (data.mtime(), data.mtime_nsec()),
            changed: (data.ctime(), data.ctime_nsec()),
        })
    }
}

/// Looks until it is dropped.
#[derive(Debug)]
pub struct Refresh {
    asked: SyncSender<()>,
}

impl Refresh {
    /// Starts to look; `look` is told whether it was asked to.
    ///
    /// # Errors
    /// When there can be no thread.
    pub fn start(name: &str, mut look: impl FnMut(bool) + Send + 'static) -> io::Result<Self> {
        // One wish is as good as many.
        let (asked, wishes) = sync_channel(1);
        thread::Builder::new().name(name.to_owned()).spawn(move || {
            loop {
                match wishes.recv_timeout(LOOK_EVERY) {
                    Ok(()) => look(true),
                    Err(RecvTimeoutError::Timeout) => look(false),
                    Err(RecvTimeoutError::Disconnected) => return,
                }
            }
        })?;
        Ok(Self { asked })
    }

    /// Has it look now, changed or not. Never waits.
    pub fn ask(&self) {
        // A full channel means that it is about to.
        let _ = self.asked.try_send(());
    }
}
