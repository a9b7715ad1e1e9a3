//! Removes a file or a directory. A link is removed, never followed.
//!
//! A tree is walked with two descriptors, however deep it is: down by name, up by `..`, which must be the directory
//! it came from.

use std::ffi::{CStr, CString};
use std::os::fd::{AsFd, OwnedFd};
use std::sync::Arc;

use nix::dir::{Dir, Type};
use nix::errno::Errno;
use nix::fcntl::{OFlag, openat};
use nix::sys::stat::{Mode, fstat};
use nix::unistd::{UnlinkatFlags, unlinkat};
use rekindle_protocol::wire::RemoveRequest;

use crate::agent::Agent;
use crate::failure::Failure;
use crate::files::location::Location;
use crate::files::worker;

/// Carries out a remove request.
///
/// # Errors
/// What the system says.
pub async fn remove(agent: &Arc<Agent>, request: RemoveRequest) -> Result<(), Failure> {
    let ticket = worker::admit(agent, &request.user).await?;
    worker::run(ticket, move |account, _| {
        let at = Location::parse(&request.path, account)?;
        let (dir, name) = at.parent()?;
        let removed = if request.recursive {
            entry(&dir, &name)
        } else {
            match unlinkat(&dir, name.as_c_str(), UnlinkatFlags::NoRemoveDir) {
                Err(Errno::EISDIR) => unlinkat(&dir, name.as_c_str(), UnlinkatFlags::RemoveDir),
                done => done,
            }
        };
        removed.map_err(|error| at.failure(error))
    })
    .await
}

/// Removes the entry of this name, with all that is in it.
///
/// # Errors
/// What the system says.
pub fn entry(dir: &OwnedFd, name: &CStr) -> nix::Result<()> {
    match unlinkat(dir, name, UnlinkatFlags::NoRemoveDir) {
        Err(Errno::EISDIR) => remove_tree(dir, name),
        done => done,
    }
}

/// Removes the directory of this name and all that is in it.
fn remove_tree(parent: &OwnedFd, name: &CStr) -> nix::Result<()> {
    let mut dir = open_directory(parent, name)?;
    // The way back: which directory was left, and by which name.
    let mut above: Vec<((u64, u64), CString)> = Vec::new();
    loop {
        if let Some(below) = empty(&dir)? {
            let next = match open_directory(&dir, &below) {
                Ok(next) => next,
                // It was exchanged or removed meanwhile: look again.
                Err(Errno::ENOTDIR | Errno::ELOOP | Errno::ENOENT) => continue,
                Err(error) => return Err(error),
            };
            above.push((identity(&dir)?, below));
            dir = next;
            continue;
        }
        let Some((left, name)) = above.pop() else { break };
        let up = open_directory(&dir, c"..")?;
        if identity(&up)? != left {
            // Somebody moved it, and what is above now was not asked for.
            return Err(Errno::ENOENT);
        }
        dir = up;
        remove_directory(&dir, &name)?;
    }
    remove_directory(parent, name)
}

/// Removes what is not a directory, up to the first that is one: its name, or `None` when nothing is left.
fn empty(dir: &OwnedFd) -> nix::Result<Option<CString>> {
    let mut entries = Dir::from_fd(open_directory(dir, c".")?)?;
    for entry in entries.iter() {
        let entry = entry?;
        let name = entry.file_name();
        if name == c"." || name == c".." {
            continue;
        }
        if entry.file_type() == Some(Type::Directory) {
            return Ok(Some(name.to_owned()));
        }
        match unlinkat(dir, name, UnlinkatFlags::NoRemoveDir) {
            Ok(()) | Err(Errno::ENOENT) => {}
            Err(Errno::EISDIR) => return Ok(Some(name.to_owned())),
            Err(error) => return Err(error),
        }
    }
    Ok(None)
}

fn open_directory(at: &OwnedFd, name: &CStr) -> nix::Result<OwnedFd> {
    let flags = OFlag::O_RDONLY | OFlag::O_DIRECTORY | OFlag::O_NOFOLLOW | OFlag::O_CLOEXEC;
    openat(at.as_fd(), name, flags, Mode::empty())
}

fn remove_directory(at: &OwnedFd, name: &CStr) -> nix::Result<()> {
    match unlinkat(at, name, UnlinkatFlags::RemoveDir) {
        Err(Errno::ENOENT) => Ok(()),
        done => done,
    }
}

fn identity(dir: &OwnedFd) -> nix::Result<(u64, u64)> {
    let data = fstat(dir.as_fd())?;
    Ok((data.st_dev, data.st_ino))
}
