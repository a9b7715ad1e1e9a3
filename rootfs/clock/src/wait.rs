//! Waits until a moment of the wall clock, which the kernel knows by its own clock.
//!
//! A condition variable does not tell which clock it was made for; the moment does: the clock of an execution begins
//! in 1980 at the earliest, and a clock that counts from the boot does not get there.

use core::ffi::{c_int, c_long, c_void};
use core::mem;

use crate::next;
use crate::read::is_wall;
use crate::shift::{Time, to_kernel};

/// No such function.
const ENOSYS: c_int = 38;
const TIMER_ABSTIME: c_int = 1;
#[cfg(target_arch = "x86_64")]
const SYS_CLOCK_NANOSLEEP: c_long = 230;
#[cfg(target_arch = "aarch64")]
const SYS_CLOCK_NANOSLEEP: c_long = 115;

type Thing = *mut c_void;

unsafe extern "C" {
    fn syscall(number: c_long, ...) -> c_long;
    fn __errno_location() -> *mut c_int;
}

/// The moment as the kernel knows it.
fn moment(time: *const Time) -> Time {
    // SAFETY: every function below demands a moment of its caller.
    // JUSTIFICATION: the caller's memory is a pointer.
    to_kernel(unsafe { *time })
}

/// The same, if it is of a wall clock.
fn moment_of(clock: c_int, time: *const Time) -> Time {
    // SAFETY: see `moment`.
    // JUSTIFICATION: see `moment`.
    if is_wall(clock) { moment(time) } else { unsafe { *time } }
}

/// Calls a function of the C library, or says that it has none.
macro_rules! call {
    ($next:ident, $kind:ty, $none:expr, ($($argument:expr),*)) => {{
        let found = next::$next.find();
        if found.is_null() {
            $none
        } else {
            // SAFETY: it is the C library's function of this name, which has this signature.
            // JUSTIFICATION: the loader tells addresses, not types.
            let function: $kind = unsafe { mem::transmute(found) };
            function($($argument),*)
        }
    }};
}

/// What a semaphore says where there is no such function.
fn no_such_call() -> c_int {
    // SAFETY: every thread has its own number.
    // JUSTIFICATION: there is no standard library here.
    unsafe { *__errno_location() = ENOSYS };
    -1
}

// SAFETY: these are the functions of their names, for every program that this library is loaded by.
// JUSTIFICATION: being called in place of the C library's is what this library is for.
#[unsafe(no_mangle)]
pub extern "C" fn pthread_cond_timedwait(condition: Thing, mutex: Thing, time: *const Time) -> c_int {
    let until = moment(time);
    call!(
        COND_TIMEDWAIT,
        extern "C" fn(Thing, Thing, *const Time) -> c_int,
        ENOSYS,
        (condition, mutex, &raw const until)
    )
}

// SAFETY: see above.
// JUSTIFICATION: see above.
#[unsafe(no_mangle)]
pub extern "C" fn pthread_cond_clockwait(
    condition: Thing,
    mutex: Thing,
    clock: c_int,
    time: *const Time,
) -> c_int {
    let until = moment_of(clock, time);
    call!(
        COND_CLOCKWAIT,
        extern "C" fn(Thing, Thing, c_int, *const Time) -> c_int,
        ENOSYS,
        (condition, mutex, clock, &raw const until)
    )
}

// SAFETY: see above.
// JUSTIFICATION: see above.
#[unsafe(no_mangle)]
pub extern "C" fn pthread_mutex_timedlock(mutex: Thing, time: *const Time) -> c_int {
    let until = moment(time);
    call!(MUTEX_TIMEDLOCK, extern "C" fn(Thing, *const Time) -> c_int, ENOSYS, (mutex, &raw const until))
}

// SAFETY: see above.
// JUSTIFICATION: see above.
#[unsafe(no_mangle)]
pub extern "C" fn pthread_mutex_clocklock(mutex: Thing, clock: c_int, time: *const Time) -> c_int {
    let until = moment_of(clock, time);
    call!(
        MUTEX_CLOCKLOCK,
        extern "C" fn(Thing, c_int, *const Time) -> c_int,
        ENOSYS,
        (mutex, clock, &raw const until)
    )
}

// SAFETY: see above.
// JUSTIFICATION: see above.
#[unsafe(no_mangle)]
pub extern "C" fn sem_timedwait(semaphore: Thing, time: *const Time) -> c_int {
    let until = moment(time);
    call!(
        SEM_TIMEDWAIT,
        extern "C" fn(Thing, *const Time) -> c_int,
        no_such_call(),
        (semaphore, &raw const until)
    )
}

// SAFETY: see above.
// JUSTIFICATION: see above.
#[unsafe(no_mangle)]
pub extern "C" fn sem_clockwait(semaphore: Thing, clock: c_int, time: *const Time) -> c_int {
    let until = moment_of(clock, time);
    call!(
        SEM_CLOCKWAIT,
        extern "C" fn(Thing, c_int, *const Time) -> c_int,
        no_such_call(),
        (semaphore, clock, &raw const until)
    )
}

/// A sleep until a moment or for a while. It answers with an error's number.
// SAFETY: see above.
// JUSTIFICATION: see above.
#[unsafe(no_mangle)]
pub extern "C" fn clock_nanosleep(clock: c_int, flags: c_int, time: *const Time, left: *mut Time) -> c_int {
    let until;
    let asked = if flags & TIMER_ABSTIME != 0 && is_wall(clock) {
        until = moment(time);
        &raw const until
    } else {
        time
    };
    // SAFETY: the kernel checks what it is given.
    // JUSTIFICATION: there is no standard library here.
    let result = unsafe { syscall(SYS_CLOCK_NANOSLEEP, clock, flags, asked, left) };
    // SAFETY: every thread has its own number.
    // JUSTIFICATION: see above.
    if result == 0 { 0 } else { unsafe { *__errno_location() } }
}
