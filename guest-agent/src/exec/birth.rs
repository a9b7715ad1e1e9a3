//! Gives birth to a process without copying the agent for it.
//!
//! `clone3` with `CLONE_VM` and `CLONE_VFORK`: the child shares the agent's memory, and the thread that started it
//! stands still, until the child executes its program or ends. A copy would cost the page tables now, and a fault
//! for every page the agent writes to later. The child gets a stack of its own, because two processes on one
//! would overwrite each other's frames. Used by `child` alone.

use std::arch::asm;
use std::io;
use std::os::fd::{AsRawFd, BorrowedFd, FromRawFd, OwnedFd};
use std::ptr;

use nix::sys::signal::{SigSet, SigmaskHow};

/// Be born in the cgroup named in `clone_args`. The libc crate's constant of that name is cut to 32 bits.
const CLONE_INTO_CGROUP: u64 = 0x2_0000_0000;
/// Bytes of the child's stack: far more than a few system calls need.
const STACK: usize = 32 * 1024;

/// Runs `life` in a new process, in `cgroup` if that is given, and returns when it executes a program or ends.
///
/// `life` must make system calls only, on memory that was laid out before, and must not return or unwind. It starts
/// with every signal blocked, so that no handler of the agent's runs in it.
///
/// # Errors
/// When no process could be made.
pub fn give<F: Fn() -> std::convert::Infallible>(
    cgroup: Option<BorrowedFd<'_>>,
    life: F,
) -> io::Result<(i32, OwnedFd)> {
    // Of a type that is aligned as stacks are.
    let mut stack = Vec::<u128>::with_capacity(STACK / size_of::<u128>());
    let mut pidfd: libc::c_int = -1;
    // SAFETY: all-zero bytes are valid `clone_args`.
    let mut args: libc::clone_args = unsafe { std::mem::zeroed() };
    args.flags = (libc::CLONE_PIDFD | libc::CLONE_VM | libc::CLONE_VFORK) as u64;
    args.pidfd = ptr::from_mut(&mut pidfd) as u64;
    args.exit_signal = libc::SIGCHLD as u64;
    args.stack = stack.as_mut_ptr() as u64;
    args.stack_size = STACK as u64;
    if let Some(cgroup) = cgroup {
        args.flags |= CLONE_INTO_CGROUP;
        args.cgroup = cgroup.as_raw_fd() as u64;
    }
    let before = SigSet::all().thread_swap_mask(SigmaskHow::SIG_SETMASK)?;
    let result: i64;
    // SAFETY: the parent comes out of the system call with nothing changed but what is declared; the child, whose
    // result is zero, calls `live` on its own stack and never gets past it. `args`, `stack` and `life` outlive the
    // child's use of them, because this thread stands still until then.
    // JUSTIFICATION: a child on another stack cannot return from a function of the parent's, so no wrapper serves.
    unsafe {
        asm!(
            "syscall",
            "test rax, rax",
            "jnz 2f",
            "xor ebp, ebp",
            "mov rdi, {life}",
            "call {live}",
            "ud2",
            "2:",
            live = in(reg) live::<F> as extern "C" fn(*const F) -> !,
            life = in(reg) &raw const life,
            inout("rax") libc::SYS_clone3 => result,
            in("rdi") &raw mut args,
            in("rsi") size_of::<libc::clone_args>(),
            // Taken by the kernel before anything else is read.
            out("rcx") _,
            out("r11") _,
        );
    }
    // It was in force a moment ago.
    let _ = before.thread_set_mask();
    if result < 0 {
        return Err(io::Error::from_raw_os_error(-result as i32));
    }
    // SAFETY: the kernel has just put a new descriptor there, which nobody else knows of.
    // JUSTIFICATION: it arrives as a number.
    Ok((result as i32, unsafe { OwnedFd::from_raw_fd(pidfd) }))
}

/// The child's first function.
extern "C" fn live<F: Fn() -> std::convert::Infallible>(life: *const F) -> ! {
    // SAFETY: the parent stands still and keeps it.
    // JUSTIFICATION: it arrives as an address.
    match (unsafe { &*life })() {}
}
