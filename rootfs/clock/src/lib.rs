//! A wall clock of its own for the programs of one execution (docs/decisions/0096).
//!
//! The agent preloads it (`guest-agent/src/exec/clock.rs`) and says in a variable by how much the wall clock is shifted.
//! `read` is what programs ask for the time; `wait` are waits until a moment of that clock, which the kernel has to be
//! told in its own. Clocks that only run on (monotonic, boot, processor time) and times of files are the kernel's.
//! Programs that are linked statically or make system calls themselves never come here.

#![no_std]

mod next;
mod read;
mod shift;
mod wait;

/// Before the program's first word: it may change its variables later.
// SAFETY: the section holds pointers to functions that the loader calls once, and this is one.
// JUSTIFICATION: there is no other way to run before a program does.
#[used]
#[unsafe(link_section = ".init_array")]
static AT_START: extern "C" fn() = at_start;

extern "C" fn at_start() {
    shift::read();
    next::find_all();
}

#[panic_handler]
fn panic(_: &core::panic::PanicInfo<'_>) -> ! {
    unsafe extern "C" {
        fn _exit(code: core::ffi::c_int) -> !;
    }
    // SAFETY: the call takes a number. Nothing here panics.
    // JUSTIFICATION: there is no standard library here.
    unsafe { _exit(70) }
}
