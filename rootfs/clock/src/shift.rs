//! By how much the wall clock of this process is shifted, and the arithmetic of it.

use core::ffi::{c_char, c_long};
use core::sync::atomic::{AtomicBool, AtomicI64, Ordering::Relaxed};

/// The variable: nanoseconds, a decimal number with a sign where it is negative. Written by
/// `guest-agent/src/exec/clock.rs`.
const VARIABLE: &core::ffi::CStr = c"REKINDLE_CLOCK_SHIFT";
const SECOND: i64 = 1_000_000_000;
/// Moments before 1980 are none of an execution's clock, which begins later, but of a clock that counts from the boot.
const FIRST_MOMENT: c_long = 315_532_800;

/// `timespec`.
#[derive(Clone, Copy)]
#[repr(C)]
pub struct Time {
    pub seconds: c_long,
    pub nanoseconds: c_long,
}

unsafe extern "C" {
    fn getenv(name: *const c_char) -> *const c_char;
}

static KNOWN: AtomicBool = AtomicBool::new(false);
static SHIFT: AtomicI64 = AtomicI64::new(0);

/// Takes the shift from the environment, if it is there already.
pub fn read() {
    // SAFETY: the name ends in a zero byte.
    // JUSTIFICATION: there is no standard library here.
    let value = unsafe { getenv(VARIABLE.as_ptr()) };
    if !value.is_null() {
        // SAFETY: the C library's strings end in a zero byte; this one is not kept.
        // JUSTIFICATION: see above.
        let text = unsafe { core::ffi::CStr::from_ptr(value) };
        SHIFT.store(parse(text.to_bytes()), Relaxed);
        KNOWN.store(true, Relaxed);
    }
}

/// Nanoseconds.
fn shift() -> i64 {
    if !KNOWN.load(Relaxed) {
        // The C library was not ready when this library was loaded, or there is no variable: looked for once more.
        read();
        KNOWN.store(true, Relaxed);
    }
    SHIFT.load(Relaxed)
}

/// A number, or none at all.
fn parse(text: &[u8]) -> i64 {
    let (negative, digits) = match text.split_first() {
        Some((b'-', rest)) => (true, rest),
        _ => (false, text),
    };
    let mut number: i64 = 0;
    for digit in digits {
        if !digit.is_ascii_digit() {
            return 0;
        }
        number = number.saturating_mul(10).saturating_add(i64::from(digit - b'0'));
    }
    if negative { number.saturating_neg() } else { number }
}

/// A moment of the kernel's wall clock, as the program sees it.
pub fn to_program(time: Time) -> Time {
    let shift = shift();
    plus(time, shift.div_euclid(SECOND), shift.rem_euclid(SECOND))
}

/// A moment that the program waits for, as the kernel knows it. What is no moment of the wall clock stays.
pub fn to_kernel(time: Time) -> Time {
    if time.seconds < FIRST_MOMENT || !(0..SECOND).contains(&time.nanoseconds) {
        return time;
    }
    let shift = shift().saturating_neg();
    plus(time, shift.div_euclid(SECOND), shift.rem_euclid(SECOND))
}

fn plus(time: Time, seconds: i64, nanoseconds: i64) -> Time {
    let sum = time.nanoseconds.saturating_add(nanoseconds);
    let carry = i64::from(sum >= SECOND);
    Time {
        seconds: time.seconds.saturating_add(seconds).saturating_add(carry),
        nanoseconds: sum - carry * SECOND,
    }
}
