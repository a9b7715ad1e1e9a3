//! What a warm interpreter cannot do in its own language: one library that Node loads as an addon and Python through
//! `ctypes`.
//!
//! `exit` ends a process before its memory is taken down, for both. `proc_view` decides what a process shows of itself
//! in `/proc`. `node` is the addon around them. An interpreter that cannot load the library works without it, only
//! slower at its end.

#![no_std]

mod exit;
mod node;
mod proc_view;

#[panic_handler]
fn panic(_: &core::panic::PanicInfo<'_>) -> ! {
    unsafe extern "C" {
        fn _exit(code: core::ffi::c_int) -> !;
    }
    // SAFETY: the call takes a number. Nothing here panics.
    // JUSTIFICATION: there is no standard library here.
    unsafe { _exit(70) }
}
