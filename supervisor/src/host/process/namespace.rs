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
//! Used by `spawn` only.

use std::ffi::{CString, OsString};
use std::io;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

use nix::mount::{MsFlags, mount};
use nix::sched::{CloneFlags, unshare};

use super::spec::Namespaces;

/// Forks with a tie to its parent's life. Part of util-linux, which every distribution has.
const UNSHARE: &str = "/usr/bin/unshare";
/// Stays the first process: one that only waits.
const FIRST: [&str; 4] = ["/bin/sh", "-c", "\"$@\" & wait \"$!\"", "sh"];

/// The command that runs `program` one level deeper.
pub(super) fn wrap(program: &Path, args: Vec<OsString>) -> (PathBuf, Vec<OsString>) {
    let mut words: Vec<OsString> = vec!["--kill-child=KILL".into(), "--".into()];
    words.extend(FIRST.map(OsString::from));
    words.push(program.into());
    words.extend(args);
    (UNSHARE.into(), words)
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
