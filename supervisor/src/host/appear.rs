//! Waits for a file to appear, told by the kernel.
//!
//! Called by engines whose monitor announces itself by making a socket.

use std::io;
use std::os::fd::OwnedFd;
use std::path::{Path, PathBuf};

use rustix::fs::inotify::{CreateFlags, WatchFlags, add_watch, init};
use tokio::io::unix::AsyncFd;

use super::readable::watch_readable;

/// A file that is not there yet.
#[derive(Debug)]
pub struct Appearance {
    events: AsyncFd<OwnedFd>,
    path: PathBuf,
}

impl Appearance {
    /// Starts watching `dir` for `name`.
    ///
    /// # Errors
    /// When the directory cannot be watched.
    pub fn watch(dir: &Path, name: &str) -> io::Result<Self> {
        let inotify = init(CreateFlags::CLOEXEC | CreateFlags::NONBLOCK)?;
        add_watch(&inotify, dir, WatchFlags::CREATE | WatchFlags::MOVED_TO | WatchFlags::ATTRIB)?;
        Ok(Self { events: watch_readable(inotify)?, path: dir.join(name) })
    }

    /// Waits until it is there.
    ///
    /// # Errors
    /// When the kernel tells nothing more.
    pub async fn wait(&self) -> io::Result<()> {
        while !self.path.exists() {
            self.change().await?;
        }
        Ok(())
    }

    /// Waits until something changes in the directory.
    ///
    /// # Errors
    /// When the kernel tells nothing more.
    pub async fn change(&self) -> io::Result<()> {
        let mut ready = self.events.readable().await?;
        let mut buffer = [0_u8; 4096];
        match rustix::io::read(self.events.get_ref(), &mut buffer) {
            Ok(_) => {}
            Err(rustix::io::Errno::AGAIN | rustix::io::Errno::INTR) => ready.clear_ready(),
            Err(error) => return Err(error.into()),
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    //! On a real directory.

    use std::fs;
    use std::time::Duration;

    use super::Appearance;

    #[tokio::test]
    async fn a_file_made_later_is_noticed_and_another_one_is_not() {
        let dir = tempfile::tempdir().expect("a directory");
        let awaited = Appearance::watch(dir.path(), "awaited").expect("watched");
        fs::write(dir.path().join("other"), "").expect("written");
        let early = tokio::time::timeout(Duration::from_millis(50), awaited.wait()).await;
        assert!(early.is_err(), "nothing of that name yet");
        fs::write(dir.path().join("awaited"), "").expect("written");
        tokio::time::timeout(Duration::from_secs(10), awaited.wait()).await.expect("in time").expect("there");
    }
}
