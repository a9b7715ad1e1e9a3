//! Spawns a process into its control group, without copying the one that starts it.
//!
//! `clone3` with `CLONE_VM` and `CLONE_VFORK`: the child shares the parent's memory, and the thread that started it
//! stands still, until the child executes its program or ends. A copy would cost the page tables now, and a fault
//! for every page that the parent writes to later. The child gets a stack of its own, because two processes on one
//! would overwrite each other's frames. Used by the agent for executions and by the supervisor for monitors; knows
//! nothing of either.

use std::convert::Infallible;
use std::io;
use std::os::fd::{AsRawFd, BorrowedFd, FromRawFd, OwnedFd};
use std::ptr;

use nix::sys::prctl;
use nix::sys::signal::{SigSet, SigmaskHow};

/// Start in the group named in `clone_args`. The libc crate's constant of that name is cut to 32 bits.
const CLONE_INTO_CGROUP: u64 = 0x2_0000_0000;
/// Bytes of the child's stack: far more than a few system calls need.
const STACK: usize = 64 * 1024;

/// Runs `child` in a new process, in the control group of this directory if one is given, and returns its process
/// id and a handle when it executes a program or ends. It starts with every signal blocked, so that no handler of
/// the parent's runs in it.
///
/// # Safety
/// `child` must make system calls only, on memory that was laid out before, must not use the C library's calls that
/// concern all threads of a process, and must neither return nor unwind. What it writes to memory, the parent sees.
///
/// # Errors
/// When no process could be made. `ENOSYS` or `EPERM` say that this way is closed, as in some containers.
pub unsafe fn spawn<F: Fn() -> Infallible>(
    cgroup: Option<BorrowedFd<'_>>,
    child: F,
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
    let dumpable = prctl::get_dumpable()?;
    let before = SigSet::all().thread_swap_mask(SigmaskHow::SIG_SETMASK)?;
    // SAFETY: the caller's promise about `child`; everything the child uses outlives its use of it, because this
    // thread stands still until then.
    // JUSTIFICATION: see there.
    let result = unsafe { part(&mut args, live::<F>, &child) };
    // It was in force a moment ago.
    let _ = before.thread_set_mask();
    // A child that has changed its user has closed the memory they share to debuggers.
    let _ = prctl::set_dumpable(dumpable);
    match i32::try_from(result) {
        // SAFETY: the kernel has just put a new descriptor there, which nobody else knows of.
        // JUSTIFICATION: it arrives as a number.
        Ok(pid) if pid > 0 => Ok((pid, unsafe { OwnedFd::from_raw_fd(pidfd) })),
        Ok(error) => Err(io::Error::from_raw_os_error(-error)),
        Err(_) => Err(io::ErrorKind::InvalidData.into()),
    }
}

/// Where parent and child part: the parent gets the result, the child calls `live` with `child`.
#[cfg(target_arch = "x86_64")]
unsafe fn part<F>(args: &mut libc::clone_args, live: extern "C" fn(*const F) -> !, child: &F) -> i64 {
    let result: i64;
    // SAFETY: the parent comes out of the system call with nothing changed but what is declared; the child, whose
    // result is zero, calls `live` on its own stack and never gets past it.
    // JUSTIFICATION: a child on another stack cannot return from a function of the parent's, so no wrapper serves.
    unsafe {
        std::arch::asm!(
            "syscall",
            "test rax, rax",
            "jnz 2f",
            "xor ebp, ebp",
            "mov rdi, {child}",
            "call {live}",
            "ud2",
            "2:",
            live = in(reg) live,
            child = in(reg) ptr::from_ref(child),
            inout("rax") libc::SYS_clone3 => result,
            in("rdi") ptr::from_mut(args),
            in("rsi") size_of::<libc::clone_args>(),
            // Taken by the kernel before anything else is read.
            out("rcx") _,
            out("r11") _,
        );
    }
    result
}

/// The same where those instructions have not been written: the child is a copy.
#[cfg(not(target_arch = "x86_64"))]
unsafe fn part<F>(args: &mut libc::clone_args, live: extern "C" fn(*const F) -> !, child: &F) -> i64 {
    args.flags &= !((libc::CLONE_VM | libc::CLONE_VFORK) as u64);
    (args.stack, args.stack_size) = (0, 0);
    // SAFETY: a child with memory of its own may return from here, and goes on to `live`.
    // JUSTIFICATION: spawning into a control group exists as this system call alone.
    match unsafe { libc::syscall(libc::SYS_clone3, ptr::from_mut(args), size_of::<libc::clone_args>()) } {
        0 => live(child),
        -1 => -i64::from(nix::errno::Errno::last_raw()),
        pid => pid,
    }
}

/// The child's first function.
extern "C" fn live<F: Fn() -> Infallible>(child: *const F) -> ! {
    // SAFETY: the parent stands still and keeps it.
    // JUSTIFICATION: it arrives as an address.
    match (unsafe { &*child })() {}
}

#[cfg(test)]
mod tests;
