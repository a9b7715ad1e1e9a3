//! A path of the caller's, checked, and the directory it leads to, opened.

use std::ffi::{CString, OsStr};
use std::io;
use std::os::fd::OwnedFd;
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::path::{Component, Path, PathBuf};

use nix::fcntl::{AT_FDCWD, OFlag, OpenHow, ResolveFlag, openat2};
use nix::sys::stat::{Mode, mkdirat};
use rekindle_protocol::limits::MAX_PATH_BYTES;

use crate::exec::Account;
use crate::failure::Failure;

/// An absolute path that has been checked for form, not for existence.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Location {
    path: PathBuf,
}

impl Location {
    /// Checks a path; a relative one starts at the user's home.
    ///
    /// # Errors
    /// When it cannot be a path.
    pub fn parse(path: &[u8], account: &Account) -> Result<Self, Failure> {
        if path.is_empty() {
            return Err(Failure::invalid("the path is empty"));
        }
        if path.len() > MAX_PATH_BYTES {
            return Err(Failure::invalid(format!("the path is longer than {MAX_PATH_BYTES} bytes")));
        }
        if path.contains(&0) {
            return Err(Failure::invalid("the path holds a NUL byte"));
        }
        Ok(Self { path: account.home.join(OsStr::from_bytes(path)) })
    }

    /// The path itself.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// A failed system call on this path.
    pub fn failure(&self, error: impl Into<io::Error>) -> Failure {
        Failure::system(&self.path.display().to_string(), &error.into())
    }

    /// Opens what the path leads to, following links as the user may, but never the magic ones in `/proc`
    /// that would lead into the agent itself.
    ///
    /// # Errors
    /// What the system says.
    pub fn open(&self, flags: OFlag) -> Result<OwnedFd, Failure> {
        self.try_open(flags).map_err(|error| self.failure(error))
    }

    /// Like [`open`](Self::open), in the system's own words.
    ///
    /// # Errors
    /// What the system says.
    pub fn try_open(&self, flags: OFlag) -> nix::Result<OwnedFd> {
        open_at(&self.path, flags)
    }

    /// Like [`open`](Self::open) for flags that may make a file, with these permissions.
    ///
    /// # Errors
    /// What the system says.
    pub fn create(&self, flags: OFlag, mode: Mode) -> Result<OwnedFd, Failure> {
        let how = how(flags).mode(mode);
        openat2(AT_FDCWD, &self.path, how).map_err(|error| self.failure(error))
    }

    /// The opened directory the last name of the path is in, and that name.
    ///
    /// # Errors
    /// When the path does not end in a name or the directory cannot be opened.
    pub fn parent(&self) -> Result<(OwnedFd, CString), Failure> {
        let name = self.name()?;
        let parent = self.path.parent().unwrap_or(Path::new("/"));
        let dir = open_at(parent, OFlag::O_PATH | OFlag::O_DIRECTORY).map_err(|error| self.failure(error))?;
        Ok((dir, name))
    }

    /// Like [`parent`](Self::parent), making the directories that are missing.
    ///
    /// # Errors
    /// When one of them cannot be made.
    pub fn make_parent(&self) -> Result<(OwnedFd, CString), Failure> {
        let name = self.name()?;
        let parent = self.path.parent().unwrap_or(Path::new("/"));
        Ok((make_directories(parent).map_err(|error| self.failure(error))?, name))
    }

    fn name(&self) -> Result<CString, Failure> {
        let trailing = self.path.as_os_str().as_bytes().last() == Some(&b'/');
        match self.path.components().next_back() {
            Some(Component::Normal(name)) if !trailing => CString::new(name.to_os_string().into_vec())
                .map_err(|_| Failure::invalid("the path holds a NUL byte")),
            _ => Err(Failure::invalid(format!("{} does not end in a name", self.path.display()))),
        }
    }
}

/// Opens a directory, making it and what is above it where that is missing.
pub fn make_directories(path: &Path) -> nix::Result<OwnedFd> {
    let flags = OFlag::O_PATH | OFlag::O_DIRECTORY;
    match open_at(path, flags) {
        Err(nix::errno::Errno::ENOENT) => {}
        other => return other,
    }
    let (Some(above), Some(name)) = (path.parent(), path.file_name()) else {
        return Err(nix::errno::Errno::ENOENT);
    };
    let above = make_directories(above)?;
    match mkdirat(&above, name, Mode::from_bits_retain(0o755)) {
        Ok(()) | Err(nix::errno::Errno::EEXIST) => {}
        Err(error) => return Err(error),
    }
    open_at(path, flags)
}

fn open_at(path: &Path, flags: OFlag) -> nix::Result<OwnedFd> {
    openat2(AT_FDCWD, path, how(flags))
}

fn how(flags: OFlag) -> OpenHow {
    // The kernel refuses what means nothing for a mere handle.
    let careful =
        if flags.contains(OFlag::O_PATH) { OFlag::O_CLOEXEC } else { OFlag::O_CLOEXEC | OFlag::O_NOCTTY };
    OpenHow::new().flags(flags | careful).resolve(ResolveFlag::RESOLVE_NO_MAGICLINKS)
}
