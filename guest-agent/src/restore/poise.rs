//! How the agent waits for a clone's first byte: on the processor that takes the interrupts of its line, and
//! ahead of everything else.
//!
//! A guest that wakes up finds the work of seconds due at once: statistics, timers, processors to balance.
//! Under emulation each of them costs the translation of its code. An agent that is ahead of them answers
//! first, and on one processor, so that no other has to be woken for it. Taken up with the last word before a
//! snapshot, given up by the gate before anything of a caller's runs.

use std::io;

use nix::errno::Errno;
use nix::sched::{CpuSet, sched_setaffinity};
use nix::unistd::Pid;

/// The processor device interrupts go to (`irqaffinity` on the kernel's command line).
const INTERRUPTS: usize = 0;
/// The calling thread, which is the one that waits for the host.
const THIS_THREAD: Pid = Pid::from_raw(0);
/// The lowest rank that goes before every ordinary thread.
const AHEAD: libc::c_int = 1;

/// Takes it up. Where the agent has no right to it, or the place no such processor, nothing is lost but time.
pub fn take() {
    let mut one = CpuSet::new();
    if one.set(INTERRUPTS).is_ok() {
        let _ = sched_setaffinity(THIS_THREAD, &one);
    }
    let _ = schedule(libc::SCHED_FIFO, AHEAD);
}

/// Gives it up: an ordinary thread that may run on every processor, as everything it starts will be.
///
/// # Errors
/// When the kernel refuses; programs would start with rights that are not theirs.
pub fn release() -> io::Result<()> {
    let mut all = CpuSet::new();
    for cpu in 0..CpuSet::count() {
        all.set(cpu)?;
    }
    sched_setaffinity(THIS_THREAD, &all)?;
    schedule(libc::SCHED_OTHER, 0)
}

fn schedule(policy: libc::c_int, rank: libc::c_int) -> io::Result<()> {
    let rank = libc::sched_param { sched_priority: rank };
    // SAFETY: the pointer is to a live value, which the call only reads.
    // JUSTIFICATION: no crate in use wraps this call.
    let done = unsafe { libc::sched_setscheduler(THIS_THREAD.as_raw(), policy, &raw const rank) };
    Errno::result(done).map(drop).map_err(io::Error::from)
}
