//! How a warm interpreter ends: its exit code first, its memory after.
//!
//! The kernel tells of the end of a process when it has taken down its memory, page by page. An interpreter that was
//! warmed has many pages, nearly all of them shared with those that wait, so this takes longer than many a
//! program, and its caller waits. Memory is taken down by whoever uses it last: so a process is left behind that
//! shares it and does nothing but sleep until the exit code has been told. Then it ends as well.
//!
//! That process holds memory and nothing else. Files, and with them locks and connections, are closed before, as the
//! end of a process closes them. A program that has taken much memory itself leaves nobody behind: whoever
//! comes next may need it. Nor do processes that a program has forked, of which there may be many.

use core::ffi::{c_int, c_long, c_void};
use core::ptr;
use core::sync::atomic::{AtomicI32, AtomicI64, Ordering::Relaxed};

/// How long the other process sleeps: a result is on its way by then.
const SLEEP: Time = Time { seconds: 0, nanoseconds: 50_000_000 };
/// What a program may have taken of its own, in KiB, whatever it has given back.
const MUCH: i64 = 64 * 1024;
/// It calls one function.
const STACK: usize = 16 * 1024;

const CLONE_VM: c_int = 0x100;
const CLONE_FS: c_int = 0x200;
const CLONE_FILES: c_int = 0x400;
const CLONE_SIGHAND: c_int = 0x800;
const SYS_CLOSE_RANGE: c_long = 436;
const RUSAGE_SELF: c_int = 0;
const SIG_BLOCK: c_int = 0;

/// `timespec`.
#[repr(C)]
struct Time {
    seconds: c_long,
    nanoseconds: c_long,
}

/// `rusage`: two times of two numbers, the most memory that was ever mapped in KiB, and thirteen other numbers.
type Usage = [c_long; 18];
const MOST_MEMORY: usize = 4;

#[repr(align(16))]
struct Stack {
    _room: [u8; STACK],
}

unsafe extern "C" {
    fn clone(
        run: extern "C" fn(*mut c_void) -> c_int,
        stack: *mut c_void,
        flags: c_int,
        with: *mut c_void,
        ...
    ) -> c_int;
    fn fflush(stream: *mut c_void) -> c_int;
    fn getpid() -> c_int;
    fn getrusage(who: c_int, usage: *mut Usage) -> c_int;
    fn nanosleep(wanted: *const Time, left: *mut Time) -> c_int;
    fn sigprocmask(how: c_int, set: *const [u64; 16], old: *mut [u64; 16]) -> c_int;
    fn syscall(number: c_long, ...) -> c_long;
    fn _exit(code: c_int) -> !;
}

static mut SLEEPER: Stack = Stack { _room: [0; STACK] };
/// The process that stood by, and what it had mapped by then, in KiB.
static STOOD_BY: AtomicI32 = AtomicI32::new(0);
static BEFORE: AtomicI64 = AtomicI64::new(i64::MAX);

/// To be called while a process stands by for its program: what it has mapped by then is not the program's.
pub fn standing_by() {
    BEFORE.store(most_memory().unwrap_or(i64::MAX), Relaxed);
    STOOD_BY.store(own_id(), Relaxed);
}

/// [`standing_by`], for Python.
// SAFETY: no other symbol of this name is in this library.
// JUSTIFICATION: Python looks it up by its name.
#[unsafe(no_mangle)]
pub extern "C" fn rekindle_standing_by() {
    standing_by();
}

/// Ends the process. What C code has printed is flushed; no library's destructors run. Nothing of the process runs on
/// afterwards: every other thread of it can do without the files it has open.
// SAFETY: no other symbol of this name is in this library.
// JUSTIFICATION: Python looks it up by its name.
#[unsafe(no_mangle)]
pub extern "C" fn rekindle_exit(code: c_int) -> ! {
    let stood_by = own_id() == STOOD_BY.load(Relaxed);
    let grown = most_memory().and_then(|now| now.checked_sub(BEFORE.load(Relaxed)));
    // SAFETY: the sleeper has a stack of its own, which nobody else uses, and what it calls is in memory that stays as
    // long as it does. The rest takes numbers and live values.
    // JUSTIFICATION: these are calls of the C library, whose buffers are its own.
    unsafe {
        fflush(ptr::null_mut());
        if stood_by && grown.is_some_and(|grown| (0..MUCH).contains(&grown)) {
            // Whatever handlers the program has installed, none runs in the sleeper.
            sigprocmask(SIG_BLOCK, &[u64::MAX; 16], ptr::null_mut());
            // The sleeper shares the table of files, too, which is the least to make; so nothing may be left in it.
            if syscall(SYS_CLOSE_RANGE, 0 as c_long, c_long::from(u32::MAX), 0 as c_long) == 0 {
                let top = (&raw mut SLEEPER).cast::<u8>().add(STACK);
                // Without one the process takes down its memory itself.
                clone(sleep, top.cast(), CLONE_VM | CLONE_FS | CLONE_FILES | CLONE_SIGHAND, ptr::null_mut());
            }
        }
        _exit(code)
    }
}

extern "C" fn sleep(_: *mut c_void) -> c_int {
    // SAFETY: the time is a constant, and nobody asks how much of it is left.
    // JUSTIFICATION: there is no standard library here.
    unsafe { nanosleep(&SLEEP, ptr::null_mut()) };
    0
}

fn own_id() -> c_int {
    // SAFETY: it takes nothing and cannot fail.
    // JUSTIFICATION: as above.
    unsafe { getpid() }
}

fn most_memory() -> Option<i64> {
    let mut usage: Usage = [0; 18];
    // SAFETY: it is as large as the kernel's.
    // JUSTIFICATION: as above.
    let failed = unsafe { getrusage(RUSAGE_SELF, &raw mut usage) };
    (failed == 0).then_some(usage[MOST_MEMORY])
}
