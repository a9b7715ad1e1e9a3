//! Copies of the monitor's program, made ahead: one for each jail.
//!
//! The jailer writes a copy of the program into every jail, so that no two monitors share memory. It opens the file
//! without emptying it: what lies there already is written over. So a copy is made in a lull, and lies in the jail
//! when the jailer comes; the start no longer pays for its pages, only for writing them
//! (docs/performance.md). Each is used once and belongs to one jail.
//!
//! A copy has no name until then, so a supervisor that is killed leaves none behind. Where the file system has no
//! files without a name, or is full, there is no copy, and the jailer does it all.

use std::fs::{self, File, OpenOptions};
use std::io;
use std::os::fd::AsRawFd;
use std::os::unix::fs::{MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Once};
use std::thread;

use nix::fcntl::{AT_FDCWD, AtFlags, OFlag};
use nix::unistd::linkat;
use rustix::process::setpriority_process;

use crate::host::ready_queue::{ReadyQueue, WhenEmpty};

/// The niceness of a thread that everybody else goes before. Linux keeps one for every thread.
const LEAST_PRIORITY: i32 = 19;

/// Copies of one program that wait for a jail.
#[derive(Debug)]
pub(super) struct JailBinaries {
    program: PathBuf,
    waiting: Arc<ReadyQueue<File>>,
    maker: Once,
}

impl JailBinaries {
    /// None yet: they are made once it is known where jails are.
    pub(super) fn of(program: &Path) -> Self {
        Self {
            program: program.to_owned(),
            waiting: Arc::new(ReadyQueue::new(WhenEmpty::Wait)),
            maker: Once::new(),
        }
    }

    /// Puts one at `target` if one waits, for a jail somewhere below `dir`. Whether it did makes no difference to
    /// what the jailer leaves there.
    pub(super) fn place(&self, dir: &Path, target: &Path) -> bool {
        self.maker.call_once(|| self.start_making(dir.to_owned()));
        let Some(copy) = self.waiting.take_ready() else { return false };
        // The program may have been replaced since: of a longer one the end would stay.
        let same_size = fs::metadata(&self.program)
            .and_then(|now| Ok(now.len() == copy.metadata()?.len()))
            .unwrap_or_default();
        same_size && name(&copy, target).is_ok()
    }

    fn start_making(&self, dir: PathBuf) {
        let (program, waiting) = (self.program.clone(), self.waiting.clone());
        // Without the thread there are no copies, which works as well.
        let _ = thread::Builder::new().name("rekindle-jail-binaries".into()).spawn(move || {
            // A machine that boots for longer than a lull is not to share its processor with a copy.
            let _ = setpriority_process(None, LEAST_PRIORITY);
            waiting.fill(|| nameless_copy(&program, &dir));
        });
    }
}

impl Drop for JailBinaries {
    fn drop(&mut self) {
        self.waiting.close();
    }
}

/// A copy on the file system of `dir`, open for reading only: a program that is open for writing cannot be started,
/// and a child that is being started may hold on to what was open.
fn nameless_copy(program: &Path, dir: &Path) -> io::Result<File> {
    let mut source = File::open(program)?;
    let mut written = OpenOptions::new()
        .write(true)
        .custom_flags(OFlag::O_TMPFILE.bits())
        .mode(source.metadata()?.mode() & 0o777)
        .open(dir)?;
    io::copy(&mut source, &mut written)?;
    File::open(own_path(&written))
}

/// Gives a nameless file its name.
fn name(file: &File, target: &Path) -> nix::Result<()> {
    linkat(AT_FDCWD, &own_path(file), AT_FDCWD, target, AtFlags::AT_SYMLINK_FOLLOW)
}

fn own_path(file: &File) -> PathBuf {
    PathBuf::from(format!("/proc/self/fd/{}", file.as_raw_fd()))
}

#[cfg(test)]
mod tests;
