//! Children that are spawned and do as little as possible.

use std::os::fd::AsFd;
#[cfg(target_arch = "x86_64")]
use std::sync::atomic::{AtomicU32, Ordering};

use nix::sys::signal::Signal;
use nix::sys::wait::{Id, WaitPidFlag, WaitStatus, waitid};
use nix::unistd::Pid;

use super::*;

fn end(pidfd: &OwnedFd) -> WaitStatus {
    waitid(Id::PIDFd(pidfd.as_fd()), WaitPidFlag::WEXITED).expect("it can be waited for")
}

fn exit(code: i32) -> Infallible {
    // SAFETY: the call takes a number and runs nothing of the parent's.
    // JUSTIFICATION: the standard library's would run what belongs to the parent.
    unsafe { libc::_exit(code) }
}

#[test]
#[cfg(target_arch = "x86_64")]
fn a_child_lives_in_the_parents_memory_and_the_parent_goes_on_when_it_has_ended() {
    let seen = AtomicU32::new(0);
    // SAFETY: it writes to memory that is there, and ends.
    let (pid, pidfd) = unsafe {
        spawn(None, || {
            seen.store(libc::getpid() as u32, Ordering::SeqCst);
            exit(7)
        })
    }
    .expect("a child");
    assert_eq!(
        seen.load(Ordering::SeqCst),
        pid as u32,
        "it ran, as another process, before the parent went on"
    );
    assert_ne!(pid as u32, std::process::id());
    assert_eq!(end(&pidfd), WaitStatus::Exited(Pid::from_raw(pid), 7));
}

#[test]
fn a_child_executes_a_program_with_the_signals_it_wants() {
    let argv = [c"sh".as_ptr(), c"-c".as_ptr(), c"kill -TERM $$; exit 3".as_ptr(), ptr::null()];
    // SAFETY: system calls on strings that live.
    let (pid, pidfd) = unsafe {
        spawn(None, || {
            let mut none: libc::sigset_t = std::mem::zeroed();
            libc::sigemptyset(&mut none);
            libc::sigprocmask(libc::SIG_SETMASK, &none, ptr::null_mut());
            libc::execv(c"/bin/sh".as_ptr(), argv.as_ptr());
            exit(127)
        })
    }
    .expect("a child");
    assert_eq!(end(&pidfd), WaitStatus::Signaled(Pid::from_raw(pid), Signal::SIGTERM, false));
}

#[test]
fn many_threads_spawn_at_once() {
    let mothers: Vec<_> = (0..8)
        .map(|code| {
            std::thread::spawn(move || {
                for _ in 0..50 {
                    // SAFETY: it only ends.
                    let (pid, pidfd) = unsafe { spawn(None, || exit(code)) }.expect("a child");
                    assert_eq!(end(&pidfd), WaitStatus::Exited(Pid::from_raw(pid), code));
                }
            })
        })
        .collect();
    for mother in mothers {
        mother.join().expect("every child ended as it should");
    }
}

#[test]
fn the_parent_is_as_it_was_and_no_child_is_an_error() {
    let masked = SigSet::thread_get_mask().expect("a mask");
    let dumpable = prctl::get_dumpable().expect("a flag");
    // SAFETY: it only ends.
    let (_, pidfd) = unsafe { spawn(None, || exit(0)) }.expect("a child");
    end(&pidfd);
    assert_eq!(SigSet::thread_get_mask().expect("a mask"), masked);
    assert_eq!(prctl::get_dumpable().expect("a flag"), dumpable);
    // A file is not a control group.
    let file = std::fs::File::open("/proc/self/stat").expect("a file");
    // SAFETY: it only ends.
    let refused = unsafe { spawn(Some(file.as_fd()), || exit(0)) };
    assert!(refused.is_err());
    assert_eq!(SigSet::thread_get_mask().expect("a mask"), masked);
}
