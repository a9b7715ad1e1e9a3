//! The processor and the rank of the agent's thread while a clone waits for its first byte: the processor that takes
//! the interrupts of its line, and ahead of everything else.
//!
//! A guest that wakes up finds the work of seconds due at once: statistics, timers, processors to balance.
//! Under emulation each of them costs the translation of its code. An agent that is ahead of them answers
//! first, and on one processor, so that no other has to be woken for it. Taken up with the last word before a
//! snapshot. The gate gives up the rank before anything of a caller's runs, the end of the first execution the
//! processor (docs/performance.md).

use std::io;
use std::sync::atomic::{AtomicBool, AtomicI32, Ordering};

use nix::errno::Errno;
use nix::sched::{CpuSet, sched_setaffinity};
use nix::unistd::Pid;

/// The processor device interrupts go to (`irqaffinity` on the kernel's command line).
const INTERRUPTS: usize = 0;
/// The calling thread, which is the one that waits for the host.
const THIS_THREAD: Pid = Pid::from_raw(0);
/// The first rank among ordinary threads. Not a real-time one: with that the kernel moved the next program to
/// another processor.
const FIRST_RANK: libc::c_int = -20;
/// Whether the thread keeps to its processor.
static PINNED: AtomicBool = AtomicBool::new(false);
/// The rank the thread had before.
static RANK_BEFORE: AtomicI32 = AtomicI32::new(0);

/// Pins the calling thread to the processor and gives it the rank. Where the agent has no right to it, or the place no
/// such processor, nothing is lost but time.
pub fn pin() {
    let mut one = CpuSet::new();
    if one.set(INTERRUPTS).is_ok() {
        PINNED.store(sched_setaffinity(THIS_THREAD, &one).is_ok(), Ordering::Relaxed);
    }
    let before = nice();
    if before > FIRST_RANK && rank(FIRST_RANK).is_ok() {
        RANK_BEFORE.store(before, Ordering::Relaxed);
    }
}

/// Gives up the rank. The processor is kept until the first execution is over ([`unpin`]): on another one everything
/// the kernel keeps for each processor would be touched for the first time, too.
///
/// # Errors
/// When the kernel refuses; programs would start with rights that are not theirs.
pub fn drop_rank() -> io::Result<()> {
    let before = RANK_BEFORE.load(Ordering::Relaxed);
    // Nothing to give up where there was no right to take it.
    if nice() < before { rank(before) } else { Ok(()) }
}

/// Gives up the processor as well, if it is still kept.
pub fn unpin() {
    if PINNED.swap(false, Ordering::Relaxed) {
        allow_all();
    }
}

/// Lets the calling thread run on every processor, as programs and all other threads may from their start.
pub fn allow_all() {
    let every = [u8::MAX; size_of::<libc::cpu_set_t>()];
    // SAFETY: the pointer is to that many live bytes, which the call only reads.
    // JUSTIFICATION: the safe one counts processors up one by one, and cannot be called between fork and exec.
    unsafe { libc::sched_setaffinity(THIS_THREAD.as_raw(), every.len(), every.as_ptr().cast()) };
}

fn nice() -> libc::c_int {
    // SAFETY: the call takes plain numbers.
    // JUSTIFICATION: no crate in use wraps this call.
    unsafe { libc::getpriority(libc::PRIO_PROCESS, 0) }
}

fn rank(nice: libc::c_int) -> io::Result<()> {
    // SAFETY: the call takes plain numbers.
    // JUSTIFICATION: no crate in use wraps this call.
    let done = unsafe { libc::setpriority(libc::PRIO_PROCESS, 0, nice) };
    Errno::result(done).map(drop).map_err(io::Error::from)
}
