//! Opens cassettes to the worker, which is another user than the supervisor: by a group that workers alone are in.
//!
//! The directories are the supervisor's, so that no worker can put anything in their place; what is in them may be the
//! worker's, and no link in them is followed.

use std::fs::{self, DirBuilder, File, OpenOptions, Permissions};
use std::io;
use std::os::fd::{AsRawFd as _, OwnedFd};
use std::os::unix::fs::{DirBuilderExt as _, MetadataExt as _, OpenOptionsExt as _, PermissionsExt as _};
use std::path::Path;

use nix::libc;

use super::name::CassetteName;
use super::store::{CassetteError, Cassettes};

/// Modes of the directory with all cassettes, of one in it, and of a file: for the supervisor and the group.
const ROOT: u32 = 0o750;
const DIRECTORY: u32 = 0o770;
const FILE: u32 = 0o660;

/// Opens nothing but the file itself: no link is followed, and nobody is waited for at the other end of a pipe.
pub(super) fn options() -> OpenOptions {
    let mut options = OpenOptions::new();
    options.mode(FILE).custom_flags(libc::O_NOFOLLOW | libc::O_NONBLOCK);
    options
}

/// Makes a directory that may be there already.
pub(super) fn make(path: &Path) -> io::Result<()> {
    DirBuilder::new().recursive(true).mode(DIRECTORY).create(path)
}

impl Cassettes {
    /// Opens the directory of all cassettes for the worker, with a place for each that is going to be recorded. Without
    /// a group the worker is this very user.
    pub(in crate::network) fn share<'a>(
        &self,
        recorded: impl Iterator<Item = &'a CassetteName>,
        group: Option<u32>,
    ) -> Result<OwnedFd, CassetteError> {
        let failed = |source| CassetteError::File { operation: "share", path: self.root.clone(), source };
        make(&self.root).map_err(failed)?;
        if let Some(group) = group {
            give(&self.root, group, ROOT).map_err(failed)?;
        }
        for name in recorded {
            let place = self.place(name);
            make(&place.dir).map_err(failed)?;
            self.open_to(name, group)?;
        }
        File::open(&self.root).map(OwnedFd::from).map_err(failed)
    }

    /// Opens one to the worker that somebody else has put there: it was recorded elsewhere, or by another user.
    pub(in crate::network) fn open_to(
        &self,
        name: &CassetteName,
        group: Option<u32>,
    ) -> Result<(), CassetteError> {
        let Some(group) = group else { return Ok(()) };
        let place = self.place(name);
        let failed = |source| CassetteError::File { operation: "share", path: place.dir.clone(), source };
        let is_theirs = |path: &Path| match fs::symlink_metadata(path) {
            Ok(facts) => Ok(facts.gid() == group),
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(true),
            Err(error) => Err(failed(error)),
        };
        if is_theirs(&place.dir)? && is_theirs(&place.blobs())? && is_theirs(&place.index())? {
            return Ok(());
        }
        let opened = || {
            for dir in [&place.dir, &place.blobs()].into_iter().filter(|dir| dir.exists()) {
                let opened = give(dir, group, DIRECTORY)?;
                // Through what was opened: whatever is put in its place meanwhile is another.
                for file in fs::read_dir(format!("/proc/self/fd/{}", opened.as_raw_fd()))? {
                    let file = file?;
                    if file.file_type()?.is_file() {
                        give(&file.path(), group, FILE)?;
                    }
                }
            }
            Ok(())
        };
        opened().map_err(failed)
    }
}

/// Opens it, and gives what is ours to the group. What a worker has made is its own already, and a file of ours that has
/// another name somewhere else is none of a cassette's.
fn give(path: &Path, group: u32, mode: u32) -> io::Result<File> {
    let file = options().read(true).open(path)?;
    let facts = file.metadata()?;
    let ours = facts.uid() == nix::unistd::geteuid().as_raw();
    if ours && (facts.is_dir() || facts.nlink() == 1) {
        std::os::unix::fs::fchown(&file, None, Some(group))?;
        file.set_permissions(Permissions::from_mode(mode))?;
    }
    Ok(file)
}
