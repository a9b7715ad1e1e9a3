//! Namespaces for a program that changes its user, as a jailer does.
//!
//! ```text
//! supervisor ──▶ unshare ──▶ sh (first process of the namespace) ──▶ the program
//!      dies ⇒ killed    dies ⇒ killed                    dies ⇒ killed, by the kernel
//! ```
//!
//! A program that changes its user loses the tie to its parent, which the kernel clears then. So the
//! tie is held by two small processes that never change theirs: when the supervisor goes, the first
//! goes, the second with it, and the kernel ends every process of a namespace whose first one ends.
//! Until the second says on its leash that it holds its tie, the program does not start; whoever lets go
//! of the leash before ends it. Used by `spawn` only.

use std::ffi::{CString, OsString};
use std::io;
use std::os::fd::OwnedFd;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use nix::mount::{MsFlags, mount};
use nix::sched::{CloneFlags, unshare};

use tokio::io::{AsyncReadExt, AsyncWriteExt};

use super::child::{Process, only_child};
use super::spec::Namespaces;

/// Forks with a tie to its parent's life. Part of util-linux, which every distribution has.
const UNSHARE: &str = "/usr/bin/unshare";
/// Stays the first process: one that only waits. Its standard input is the leash.
const FIRST: [&str; 4] =
    ["/bin/sh", "-c", "echo >&0; read go || exit 1; exec </dev/null; \"$@\" & wait \"$!\"", "sh"];

/// The command that runs `program` one level deeper.
pub(super) fn wrap(program: &Path, args: Vec<OsString>) -> (PathBuf, Vec<OsString>) {
    let mut words: Vec<OsString> = vec!["--kill-child=KILL".into(), "--".into()];
    words.extend(FIRST.map(OsString::from));
    words.push(program.into());
    words.extend(args);
    (UNSHARE.into(), words)
}

/// A socket between the supervisor and the first process, until that one is on its own.
pub(super) struct Leash {
    socket: UnixStream,
}

impl Leash {
    /// Makes the other end the command's standard input.
    pub(super) fn attach(command: &mut Command) -> io::Result<Self> {
        let (socket, theirs) = UnixStream::pair()?;
        socket.set_nonblocking(true)?;
        command.stdin(Stdio::from(OwnedFd::from(theirs)));
        Ok(Self { socket })
    }

    /// Waits for the first process, has `process` lead it, and lets the program start.
    pub(super) async fn release(self, process: &mut Process, pid: u32) -> io::Result<()> {
        let mut socket = tokio::net::UnixStream::from_std(self.socket)?;
        socket.read_u8().await?;
        let first = only_child(pid)?;
        process.lead(first)?;
        socket.write_all(b"go\n").await
    }
}

/// The binds with everything allocated, for use between fork and exec.
pub(super) struct Entry {
    binds: Vec<(CString, CString, bool)>,
}

impl Entry {
    pub(super) fn prepare(namespaces: &Namespaces) -> io::Result<Self> {
        let text = |path: &Path| CString::new(path.as_os_str().as_bytes()).map_err(io::Error::from);
        let bind = |bind: &super::spec::Bind| Ok((text(&bind.source)?, text(&bind.target)?, bind.writable));
        Ok(Self { binds: namespaces.binds.iter().map(bind).collect::<io::Result<_>>()? })
    }

    /// Enters new namespaces and makes the binds. System calls only.
    pub(super) fn enter(&self) -> io::Result<()> {
        unshare(CloneFlags::CLONE_NEWNS | CloneFlags::CLONE_NEWPID | CloneFlags::CLONE_NEWNET)?;
        let none = None::<&CString>.map(CString::as_c_str);
        mount(none, c"/", none, MsFlags::MS_PRIVATE | MsFlags::MS_REC, none)?;
        for (source, target, writable) in &self.binds {
            mount(Some(source.as_c_str()), target.as_c_str(), none, MsFlags::MS_BIND, none)?;
            let mut flags = MsFlags::MS_REMOUNT | MsFlags::MS_BIND | MsFlags::MS_NOSUID | MsFlags::MS_NODEV;
            if !writable {
                flags |= MsFlags::MS_RDONLY;
            }
            mount(none, target.as_c_str(), none, flags, none)?;
        }
        Ok(())
    }
}
