//! What a process shows of itself in `/proc`: arguments and environment that are the execution's instead of those it
//! was started with, readable to the execution's user.

use core::ffi::{c_int, c_ulong};

const PR_SET_DUMPABLE: c_int = 4;
const PR_SET_MM: c_int = 35;
/// The options that move the ends of the arguments and of the environment.
pub const ARGUMENTS: [c_ulong; 2] = [8, 9];
pub const ENVIRONMENT: [c_ulong; 2] = [10, 11];

unsafe extern "C" {
    fn malloc(size: usize) -> *mut u8;
    fn prctl(option: c_int, ...) -> c_int;
}

/// Shows a copy of `size` bytes at `text`. Needs root's rights; where the kernel refuses, the old text is shown.
///
/// # Safety
/// `text` is that many readable bytes.
pub unsafe fn show(options: [c_ulong; 2], text: *const u8, size: usize) {
    // SAFETY: the copy is as large as the text and never freed: the kernel reads it as long as the process lives.
    // JUSTIFICATION: what a process shows of itself is its memory.
    unsafe {
        let copy = malloc(size.max(1));
        if copy.is_null() {
            return;
        }
        core::ptr::copy_nonoverlapping(text, copy, size);
        let [start, end] = options;
        let (low, high) = (copy as c_ulong, copy as c_ulong + size as c_ulong);
        let set = |option: c_ulong, value: c_ulong| {
            prctl(PR_SET_MM, option, value, 0 as c_ulong, 0 as c_ulong) == 0
        };
        // The start may never lie behind the end, on the way from the old place to the new one either.
        let _ = if set(start, low) { set(end, high) } else { set(end, high) && set(start, low) };
    }
}

/// Lets the user see its process, which the kernel hides when a process changes its user, as if it held secrets.
pub fn reveal() {
    let zero: c_ulong = 0;
    // SAFETY: the call takes plain numbers.
    // JUSTIFICATION: it is a system call.
    unsafe { prctl(PR_SET_DUMPABLE, 1 as c_ulong, zero, zero, zero) };
}
