//! The directories of one watch, and what the kernel tells of them.
//!
//! The kernel watches single directories. For everything below one, each directory is added when it is found or made,
//! and dropped when it is moved away. What is made in a new directory before it is watched is found by looking.

use std::collections::{HashMap, HashSet, VecDeque};
use std::ffi::OsString;
use std::os::fd::{AsFd, AsRawFd as _, BorrowedFd, OwnedFd};
use std::os::unix::ffi::{OsStrExt as _, OsStringExt as _};
use std::path::{Path, PathBuf};

use bytes::Bytes;
use nix::dir::{Dir, Type};
use nix::errno::Errno;
use nix::fcntl::{OFlag, OpenHow, ResolveFlag, openat2};
use nix::sys::inotify::{AddWatchFlags, InitFlags, Inotify, InotifyEvent, WatchDescriptor};
use nix::sys::stat::fstat;
use rekindle_protocol::limits::{MAX_PATH_BYTES, MAX_WATCHED_DIRECTORIES};
use rekindle_protocol::wire::file_event::Kind;
use rekindle_protocol::wire::{ErrorCode, FileEvent};

use crate::failure::Failure;
use crate::files::location::Location;
use crate::files::write::TEMPORARY_PREFIX;

/// Names that looking into new directories may find at once; more end the watch.
const MAX_FOUND: usize = 65_536;

/// What is watched.
pub struct Tree {
    inotify: Inotify,
    /// The directory that was asked for. It is not held open: the kernel tells of its end when nobody has it.
    at: Location,
    identity: (libc::dev_t, libc::ino_t),
    root_watch: WatchDescriptor,
    recursive: bool,
    /// Paths of directories, below the root.
    directories: HashMap<WatchDescriptor, PathBuf>,
    /// Found by looking: the kernel may tell of them too.
    found: HashSet<(WatchDescriptor, OsString)>,
    /// Uploads that get their name: what the kernel knows both sides of a move by.
    uploads: HashSet<u32>,
}

impl AsFd for Tree {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.inotify.as_fd()
    }
}

fn wanted() -> AddWatchFlags {
    AddWatchFlags::IN_CREATE
        | AddWatchFlags::IN_MODIFY
        | AddWatchFlags::IN_ATTRIB
        | AddWatchFlags::IN_DELETE
        | AddWatchFlags::IN_MOVED_FROM
        | AddWatchFlags::IN_MOVED_TO
        | AddWatchFlags::IN_DELETE_SELF
        | AddWatchFlags::IN_MOVE_SELF
        | AddWatchFlags::IN_ONLYDIR
}

impl Tree {
    /// Watches a directory. Runs with the rights of the user, like everything here.
    pub fn new(at: &Location, recursive: bool) -> Result<Self, Failure> {
        let root = at.open(OFlag::O_RDONLY | OFlag::O_DIRECTORY)?;
        let inotify = Inotify::init(InitFlags::IN_CLOEXEC | InitFlags::IN_NONBLOCK)
            .map_err(|error| at.failure(error))?;
        let root_watch = add(&inotify, &root).map_err(|error| at.failure(error))?;
        let identity = identity(&root).map_err(|error| at.failure(error))?;
        let directories = HashMap::from([(root_watch, PathBuf::new())]);
        let at = at.clone();
        let (found, uploads) = (HashSet::new(), HashSet::new());
        let mut tree = Self { inotify, at, identity, root_watch, recursive, directories, found, uploads };
        if recursive {
            tree.add_below(Path::new(""), None)?;
        }
        Ok(tree)
    }

    /// What has happened next; `None` when everything until now was told.
    pub fn changes(&mut self) -> Result<Option<Vec<FileEvent>>, Failure> {
        let events = match self.inotify.read_events() {
            Ok(events) => events,
            Err(Errno::EAGAIN) => {
                // Whatever was found by looking the kernel has told by now, if it ever does.
                self.found.clear();
                self.uploads.clear();
                return Ok(None);
            }
            Err(error) => return Err(self.at.failure(error)),
        };
        let mut changes = Vec::with_capacity(events.len());
        for event in events {
            self.change(event, &mut changes)?;
        }
        Ok(Some(changes))
    }

    fn change(&mut self, event: InotifyEvent, changes: &mut Vec<FileEvent>) -> Result<(), Failure> {
        let mask = event.mask;
        if mask.contains(AddWatchFlags::IN_Q_OVERFLOW) {
            let message =
                format!("changes in {} were missed: look, and watch again", self.at.path().display());
            return Err(Failure::new(ErrorCode::TooLarge, message));
        }
        let gone = AddWatchFlags::IN_DELETE_SELF | AddWatchFlags::IN_MOVE_SELF | AddWatchFlags::IN_IGNORED;
        if event.wd == self.root_watch && mask.intersects(gone | AddWatchFlags::IN_UNMOUNT) {
            let message = format!("{} is gone, or has another name", self.at.path().display());
            return Err(Failure::new(ErrorCode::NotFound, message));
        }
        if mask.contains(AddWatchFlags::IN_IGNORED) {
            self.directories.remove(&event.wd);
            return Ok(());
        }
        // Of a directory below, its own directory tells; of one that is watched no more, nobody asks.
        let (Some(name), Some(directory)) = (event.name, self.directories.get(&event.wd)) else {
            return Ok(());
        };
        if name.as_bytes().starts_with(TEMPORARY_PREFIX.as_bytes()) {
            if mask.contains(AddWatchFlags::IN_MOVED_FROM) {
                self.uploads.insert(event.cookie);
            }
            return Ok(());
        }
        let path = directory.join(&name);
        if mask.contains(AddWatchFlags::IN_MOVED_TO) && self.uploads.remove(&event.cookie) {
            // What was done to it while it had no name.
            for kind in [Kind::Created, Kind::Written, Kind::Changed] {
                tell(&path, kind, changes);
            }
            return Ok(());
        }
        let is_directory = mask.contains(AddWatchFlags::IN_ISDIR);
        let appeared = mask.intersects(AddWatchFlags::IN_CREATE | AddWatchFlags::IN_MOVED_TO);
        let kind = if appeared {
            if self.found.remove(&(event.wd, name)) {
                return Ok(());
            }
            Kind::Created
        } else if mask.contains(AddWatchFlags::IN_MODIFY) {
            Kind::Written
        } else if mask.contains(AddWatchFlags::IN_DELETE) {
            Kind::Removed
        } else if mask.contains(AddWatchFlags::IN_MOVED_FROM) {
            Kind::Renamed
        } else {
            Kind::Changed
        };
        tell(&path, kind, changes);
        if is_directory && self.recursive {
            match kind {
                Kind::Created => self.add_below(&path, Some(changes))?,
                Kind::Renamed => self.forget(&path),
                _ => {}
            }
        }
        Ok(())
    }

    /// Watches a directory below the root and all of its own. With `changes` they are new, and what is in them is
    /// told. What vanishes meanwhile, or may not be read, is passed over.
    fn add_below(&mut self, path: &Path, mut changes: Option<&mut Vec<FileEvent>>) -> Result<(), Failure> {
        let mut waiting = VecDeque::from([path.to_owned()]);
        while let Some(path) = waiting.pop_front() {
            let Some(directory) = self.open(&path) else { continue };
            let watch = match add(&self.inotify, &directory) {
                Ok(watch) => watch,
                Err(error @ (Errno::ENOSPC | Errno::ENOMEM)) => return Err(self.at.failure(error)),
                Err(_) => continue,
            };
            self.directories.insert(watch, path.clone());
            if self.directories.len() > MAX_WATCHED_DIRECTORIES {
                return Err(self.too_many());
            }
            let Ok(mut entries) = Dir::from_fd(directory) else { continue };
            for entry in entries.iter() {
                let Ok(entry) = entry else { break };
                let name = entry.file_name().to_bytes();
                if name == b"." || name == b".." {
                    continue;
                }
                let below = path.join(std::ffi::OsStr::from_bytes(name));
                if let Some(changes) = changes.as_deref_mut() {
                    if self.found.len() == MAX_FOUND {
                        return Err(self.too_many());
                    }
                    self.found.insert((watch, OsString::from_vec(name.to_vec())));
                    tell(&below, Kind::Created, changes);
                }
                if entry.file_type() == Some(Type::Directory) && below.as_os_str().len() <= MAX_PATH_BYTES {
                    waiting.push_back(below);
                }
            }
        }
        Ok(())
    }

    /// Stops watching a directory that was moved away, and all of its own.
    fn forget(&mut self, path: &Path) {
        let inotify = &self.inotify;
        self.directories.retain(|watch, directory| {
            let moved = directory.starts_with(path);
            if moved {
                let _ = inotify.rm_watch(*watch);
            }
            !moved
        });
    }

    /// Opens a directory below the root. No link leads out of it, nor anywhere.
    fn open(&self, path: &Path) -> Option<OwnedFd> {
        let root = self.at.open(OFlag::O_PATH | OFlag::O_DIRECTORY).ok()?;
        if identity(&root) != Ok(self.identity) {
            return None;
        }
        let path = if path.as_os_str().is_empty() { Path::new(".") } else { path };
        let how = OpenHow::new()
            .flags(OFlag::O_RDONLY | OFlag::O_DIRECTORY | OFlag::O_CLOEXEC)
            .resolve(ResolveFlag::RESOLVE_BENEATH | ResolveFlag::RESOLVE_NO_SYMLINKS);
        openat2(&root, path, how).ok()
    }

    fn too_many(&self) -> Failure {
        let root = self.at.path().display();
        let message = format!("{root} has too many directories to watch: at most {MAX_WATCHED_DIRECTORIES}");
        Failure::new(ErrorCode::TooLarge, message)
    }
}

/// Which directory this is, whatever its name.
fn identity(directory: &OwnedFd) -> nix::Result<(libc::dev_t, libc::ino_t)> {
    fstat(directory).map(|found| (found.st_dev, found.st_ino))
}

/// Watches an open directory. By its descriptor: a path might lead elsewhere by now.
fn add(inotify: &Inotify, directory: &OwnedFd) -> nix::Result<WatchDescriptor> {
    let path = format!("/proc/self/fd/{}", directory.as_raw_fd());
    inotify.add_watch(path.as_str(), wanted())
}

/// Adds a change. One whose path is too long to be asked for is not told.
fn tell(path: &Path, kind: Kind, changes: &mut Vec<FileEvent>) {
    let path = Bytes::copy_from_slice(path.as_os_str().as_bytes());
    if path.len() <= MAX_PATH_BYTES {
        changes.push(FileEvent { path, kind: kind.into() });
    }
}
