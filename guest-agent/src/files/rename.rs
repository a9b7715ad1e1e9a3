//! Gives a file or a directory another name, as `mv -T` does. A link is moved itself, never followed.
//!
//! Within a file system this is one step of the kernel's. To another one the thing is copied beside its target, whole,
//! then takes its name, and then the original is removed: whatever fails before that last step leaves all as it was.

use std::ffi::CStr;
use std::os::fd::{AsFd, OwnedFd};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use nix::errno::Errno;
use nix::fcntl::{AtFlags, RenameFlags, renameat, renameat2};
use nix::sys::stat::{Mode, SFlag, fstat, fstatat};
use nix::unistd::{AccessFlags, faccessat};
use rekindle_protocol::mux::Stream;
use rekindle_protocol::wire::response::Reply;
use rekindle_protocol::wire::{FileInfo, RenameRequest};
use tokio::io::AsyncReadExt as _;

use crate::agent::Agent;
use crate::exec::Account;
use crate::failure::Failure;
use crate::files::copy::Copy;
use crate::files::location::Location;
use crate::files::{info, remove, worker};
use crate::session::{reply, response};

/// Carries out a rename request on its stream, whose end stops a copy.
pub async fn rename(agent: &Arc<Agent>, request: RenameRequest, mut stream: Stream) {
    let stop = Arc::new(AtomicBool::new(false));
    let renamed = carry_out(agent, request, stop.clone());
    tokio::pin!(renamed);
    let answer = tokio::select! {
        biased;
        renamed = &mut renamed => renamed,
        _ = stream.read_u8() => {
            // The host gave up; nobody is left to tell.
            stop.store(true, Ordering::Relaxed);
            let _ = renamed.await;
            return;
        }
    };
    reply(stream, answer.map_or_else(Failure::into_response, |info| response(Reply::File(info)))).await;
}

async fn carry_out(
    agent: &Arc<Agent>,
    request: RenameRequest,
    stop: Arc<AtomicBool>,
) -> Result<FileInfo, Failure> {
    let ticket = worker::admit(agent, &request.user).await?;
    worker::run(ticket, move |account, names| {
        let from = Location::parse(&request.from, account)?;
        let to = Location::parse(&request.to, account)?;
        let both = format!("{} to {}", from.path().display(), to.path().display());
        let source = from.parent()?;
        // Asked first, so that no directories are made for nothing.
        fstatat(&source.0, source.1.as_c_str(), AtFlags::AT_SYMLINK_NOFOLLOW)
            .map_err(|error| from.failure(error))?;
        let target = to.make_parent()?;
        let move_to = Move {
            from: (&source.0, &source.1),
            to: (&target.0, &target.1),
            must_not_exist: request.must_not_exist,
        };
        match move_to.at_once(move_to.from) {
            Err(Errno::EXDEV) => move_to.across(account, &both, &stop)?,
            done => done.map_err(|error| Failure::system(&both, &error.into()))?,
        }
        info::of_entry(request.to, &target.0, &target.1, names).map_err(|error| to.failure(error))
    })
    .await
}

/// A name in an opened directory.
type Entry<'a> = (&'a OwnedFd, &'a CStr);

struct Move<'a> {
    from: Entry<'a>,
    to: Entry<'a>,
    must_not_exist: bool,
}

impl Move<'_> {
    /// Lets the kernel do it.
    fn at_once(&self, (dir, name): Entry<'_>) -> nix::Result<()> {
        if self.must_not_exist {
            renameat2(dir.as_fd(), name, self.to.0.as_fd(), self.to.1, RenameFlags::RENAME_NOREPLACE)
        } else {
            renameat(dir.as_fd(), name, self.to.0.as_fd(), self.to.1)
        }
    }

    /// Copies, gives the copy the name, removes the original.
    fn across(&self, account: &Account, both: &str, stop: &AtomicBool) -> Result<(), Failure> {
        let failed = |error: std::io::Error| match error.raw_os_error() {
            Some(libc::EXDEV) => Failure::invalid(format!(
                "{both}: to another file system only files, links and directories of them can be moved"
            )),
            _ => Failure::system(both, &error),
        };
        self.check_target().and_then(|()| self.check_source(account.uid)).map_err(|e| failed(e.into()))?;
        let copy = Copy::make(self.from.0, self.from.1, self.to.0, stop).map_err(failed)?;
        self.at_once((self.to.0, copy.name())).map_err(|error| failed(error.into()))?;
        copy.published();
        let removed = remove::entry(self.from.0, self.from.1);
        let left = |error: Errno| Failure::system(&format!("{both}: copied, but not removed"), &error.into());
        removed.map_err(left)
    }

    /// Asks for what the kernel would refuse when the copy is made, before it is.
    fn check_target(&self) -> nix::Result<()> {
        match fstatat(self.to.0, self.to.1, AtFlags::AT_SYMLINK_NOFOLLOW) {
            Ok(_) if self.must_not_exist => Err(Errno::EEXIST),
            _ => Ok(()),
        }
    }

    /// Whether the user may take the original away, by the rules by which the kernel renames.
    fn check_source(&self, user: u32) -> nix::Result<()> {
        let writable = AccessFlags::W_OK | AccessFlags::X_OK;
        faccessat(self.from.0, c".", writable, AtFlags::AT_EACCESS)?;
        let (dir, stat) =
            (fstat(self.from.0)?, fstatat(self.from.0, self.from.1, AtFlags::AT_SYMLINK_NOFOLLOW)?);
        let sticky = dir.st_mode & Mode::S_ISVTX.bits() != 0;
        if sticky && dir.st_uid != user && stat.st_uid != user {
            return Err(Errno::EPERM);
        }
        if SFlag::from_bits_truncate(stat.st_mode & SFlag::S_IFMT.bits()) == SFlag::S_IFDIR {
            faccessat(self.from.0, self.from.1, writable, AtFlags::AT_EACCESS)?;
        }
        Ok(())
    }
}
