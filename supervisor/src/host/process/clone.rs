//! Spawns a child into its control group, with `clone3`.
//!
//! On cgroup v2 a process that is moved into a group makes the kernel wait for every processor, some fifteen
//! milliseconds on any machine; one that starts there makes nobody wait. Only `clone3` can do that, and without
//! copying this process, which grows with every machine (the crate `rekindle-cgroup-spawn`). Where it is not allowed, as
//! in some containers, the child is forked and moves by itself. See decision 0003.
//!
//! Between `clone3` and `execve` the child may only make system calls on memory that was laid out before: in a copy the
//! other threads do not exist, and their locks may be held for ever. Used by `spawn` only.

use std::convert::Infallible;
use std::ffi::{CString, OsStr, OsString};
use std::io::{self, Read};
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd, RawFd};
use std::os::unix::ffi::OsStrExt;
use std::path::Path;
use std::ptr;

use rustix::process::{Pid, PidfdFlags, WaitId, WaitIdOptions, pidfd_open, waitid};

use crate::host::cgroup::CgroupJoin;

/// A program, its arguments, its environment and its directory, as the kernel takes them.
pub(super) struct Program {
    path: CString,
    argv: Vec<CString>,
    envp: Vec<CString>,
    directory: CString,
}

impl Program {
    pub(super) fn new(
        path: &Path,
        args: &[OsString],
        environment: &[(&str, &str)],
        directory: &Path,
    ) -> io::Result<Self> {
        let text = |text: &OsStr| CString::new(text.as_bytes()).map_err(io::Error::from);
        let path = text(path.as_os_str())?;
        let mut argv = vec![path.clone()];
        for arg in args {
            argv.push(text(arg)?);
        }
        let variable = |(name, value): &(&str, &str)| text(OsStr::new(&format!("{name}={value}")));
        let envp = environment.iter().map(variable).collect::<io::Result<_>>()?;
        Ok(Self { path, argv, envp, directory: text(directory.as_os_str())? })
    }

    /// Starts it and returns once it runs, with its process id and a handle.
    ///
    /// `prepare` runs in the child right before the program, so it must keep to what the head of this file says. What
    /// it holds is not dropped there, since giving memory back takes a lock.
    pub(super) fn start(
        &self,
        stdio: [BorrowedFd<'_>; 3],
        cgroup: Option<&CgroupJoin>,
        prepare: impl Fn() -> io::Result<()>,
    ) -> io::Result<(u32, OwnedFd)> {
        let (mut verdict, report) = io::pipe()?;
        let pointers = |strings: &[CString]| {
            strings.iter().map(|string| string.as_ptr()).chain([ptr::null()]).collect::<Vec<_>>()
        };
        let (argv, envp) = (pointers(&self.argv), pointers(&self.envp));
        let stdio = stdio.map(|fd| fd.as_raw_fd());
        let report_fd = report.as_raw_fd();
        let child = |in_cgroup: bool| {
            let failure = || -> io::Result<Infallible> {
                if let Some(cgroup) = cgroup.filter(|_| !in_cgroup) {
                    cgroup.enter()?;
                }
                stand(stdio, &self.directory)?;
                prepare()?;
                // SAFETY: path and both lists are null-terminated and live as long as this process.
                // JUSTIFICATION: nothing but a plain system call is allowed here.
                unsafe { libc::execve(self.path.as_ptr(), argv.as_ptr(), envp.as_ptr()) };
                Err(io::Error::last_os_error())
            };
            let Err(error) = failure();
            give_up(report_fd, error.raw_os_error().unwrap_or(libc::EINVAL))
        };
        let (pid, pidfd) = clone_into(cgroup.and_then(CgroupJoin::cgroup_fd), child)?;
        drop(report);
        // Ends without a word when `execve` has closed the child's end.
        let mut errno = Vec::new();
        verdict.read_to_end(&mut errno)?;
        match errno.first_chunk() {
            None => Ok((pid, pidfd)),
            Some(errno) => {
                let _ = waitid(WaitId::PidFd(pidfd.as_fd()), WaitIdOptions::EXITED);
                Err(io::Error::from_raw_os_error(i32::from_ne_bytes(*errno)))
            }
        }
    }
}

/// Makes a child that runs `child`, in the group if that is possible; `child` is told whether it was.
fn clone_into(
    cgroup_fd: Option<BorrowedFd<'_>>,
    child: impl Fn(bool) -> Infallible,
) -> io::Result<(u32, OwnedFd)> {
    // SAFETY: `child` makes system calls only, on memory that `start` has laid out and keeps, and never returns.
    // JUSTIFICATION: starting inside a control group, and without a copy, is possible in no safe way.
    let spawned = unsafe { rekindle_cgroup_spawn::spawn(cgroup_fd, || child(cgroup_fd.is_some())) };
    match spawned {
        Err(error) if matches!(error.raw_os_error(), Some(libc::ENOSYS | libc::EPERM)) => fork(child),
        spawned => spawned.map(|(pid, pidfd)| (pid.cast_unsigned(), pidfd)),
    }
}

/// Makes a child that is a copy.
fn fork(child: impl Fn(bool) -> Infallible) -> io::Result<(u32, OwnedFd)> {
    // SAFETY: the child gets its own copy of all memory. It then only runs `child`, which keeps to system calls and
    // never returns.
    // JUSTIFICATION: what happens in the child is more than any safe interface allows.
    let pid = unsafe { libc::fork() };
    if pid == 0 {
        child(false);
    }
    let pid = Pid::from_raw(pid.max(0)).ok_or_else(io::Error::last_os_error)?;
    // Not reaped by anyone else, so its process id is still its own.
    let pidfd = pidfd_open(pid, PidfdFlags::empty())?;
    Ok((pid.as_raw_nonzero().get().cast_unsigned(), pidfd))
}

/// Standard descriptors, signals and directory as a program expects them.
fn stand(stdio: [RawFd; 3], directory: &CString) -> io::Result<()> {
    let done = |result: libc::c_int| if result < 0 { Err(io::Error::last_os_error()) } else { Ok(()) };
    // SAFETY: every call takes plain numbers or pointers to memory that outlives it, and is on the list of what
    // may be called between fork and exec.
    // JUSTIFICATION: see the head of this file.
    unsafe {
        for (target, source) in (0..).zip(stdio) {
            done(libc::dup2(source, target))?;
        }
        // Handlers go first: one that ran now would run in the parent's memory. And what is ignored, as SIGPIPE is
        // from this program's own start, stays so across `execve`.
        for signal in 1..=64 {
            // Refused for the few whose effect cannot be changed.
            libc::signal(signal, libc::SIG_DFL);
        }
        let mut none: libc::sigset_t = std::mem::zeroed();
        libc::sigemptyset(&mut none);
        libc::sigprocmask(libc::SIG_SETMASK, &none, ptr::null_mut());
        done(libc::chdir(directory.as_ptr()))
    }
}

/// Tells the parent why, and ends.
fn give_up(report: RawFd, errno: i32) -> Infallible {
    let bytes = errno.to_ne_bytes();
    // SAFETY: the buffer is live, the descriptor is this process's own copy; `_exit` runs nothing of the parent's.
    // JUSTIFICATION: nothing but plain system calls is allowed here.
    unsafe {
        libc::write(report, bytes.as_ptr().cast(), bytes.len());
        libc::_exit(127)
    }
}
