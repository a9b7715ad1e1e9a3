//! What programs ask for the time.
//!
//! Every function here has the name and the rules of the C library's, in whose place programs call it.

use core::ffi::{c_int, c_long};
use core::mem;

use crate::next::CLOCK_GETTIME;
use crate::shift::{Time, to_program};

/// The wall clocks: plain, coarse, one that wakes a machine, and the atomic one.
const WALL: [c_int; 4] = [0, 5, 8, 11];
const REALTIME: c_int = 0;
/// The base of `timespec_get` that is the wall clock.
const UTC: c_int = 1;
#[cfg(target_arch = "x86_64")]
const SYS_CLOCK_GETTIME: c_long = 228;
#[cfg(target_arch = "aarch64")]
const SYS_CLOCK_GETTIME: c_long = 113;

/// `timeval`.
#[repr(C)]
pub struct MicroTime {
    seconds: c_long,
    microseconds: c_long,
}

unsafe extern "C" {
    fn syscall(number: c_long, ...) -> c_long;
}

/// Whether a clock is shifted.
pub fn is_wall(clock: c_int) -> bool {
    WALL.contains(&clock)
}

/// Of any clock.
// SAFETY: this is the function of that name, for every program that this library is loaded by.
// JUSTIFICATION: being called in place of the C library's is what this library is for; so for all below.
#[unsafe(no_mangle)]
pub extern "C" fn clock_gettime(clock: c_int, time: *mut Time) -> c_int {
    let next = CLOCK_GETTIME.found();
    let result = if next.is_null() {
        // SAFETY: the kernel checks what it is given. Only before the library is ready.
        // JUSTIFICATION: there is no standard library here.
        unsafe { syscall(SYS_CLOCK_GETTIME, clock, time) as c_int }
    } else {
        // SAFETY: it is the C library's function of this name, which has this signature.
        // JUSTIFICATION: the loader tells addresses, not types.
        let next: extern "C" fn(c_int, *mut Time) -> c_int = unsafe { mem::transmute(next) };
        next(clock, time)
    };
    if result == 0 && is_wall(clock) {
        // SAFETY: the kernel has just written there.
        // JUSTIFICATION: the caller's memory is a pointer.
        unsafe { *time = to_program(*time) };
    }
    result
}

/// With microseconds. The time zone has been nobody's for decades, and is zero.
// SAFETY: see `clock_gettime`.
// JUSTIFICATION: see `clock_gettime`.
#[unsafe(no_mangle)]
pub extern "C" fn gettimeofday(time: *mut MicroTime, zone: *mut [c_int; 2]) -> c_int {
    let now = now();
    // SAFETY: the caller gives places for both, or none.
    // JUSTIFICATION: the caller's memory is a pointer.
    unsafe {
        if !time.is_null() {
            *time = MicroTime { seconds: now.seconds, microseconds: now.nanoseconds / 1000 };
        }
        if !zone.is_null() {
            *zone = [0, 0];
        }
    }
    0
}

/// Seconds.
// SAFETY: see `clock_gettime`.
// JUSTIFICATION: see `clock_gettime`.
#[unsafe(no_mangle)]
pub extern "C" fn time(place: *mut c_long) -> c_long {
    let now = now();
    if !place.is_null() {
        // SAFETY: the caller gives a place, or none.
        // JUSTIFICATION: the caller's memory is a pointer.
        unsafe { *place = now.seconds };
    }
    now.seconds
}

/// As the C standard has it: the base, or 0 where there is no such clock. Its other bases are the kernel's clocks by
/// their numbers and one.
// SAFETY: see `clock_gettime`.
// JUSTIFICATION: see `clock_gettime`.
#[unsafe(no_mangle)]
pub extern "C" fn timespec_get(time: *mut Time, base: c_int) -> c_int {
    if (UTC..=UTC + 3).contains(&base) && clock_gettime(base - UTC, time) == 0 { base } else { 0 }
}

fn now() -> Time {
    let mut now = Time { seconds: 0, nanoseconds: 0 };
    clock_gettime(REALTIME, &raw mut now);
    now
}
