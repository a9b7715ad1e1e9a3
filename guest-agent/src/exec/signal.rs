//! Sends a signal to a running execution.

use std::io;
use std::os::fd::AsRawFd;

use rekindle_protocol::wire;

use crate::agent::Agent;
use crate::failure::Failure;

/// Carries out a signal request.
///
/// # Errors
/// When the signal is none or the execution does not run.
pub fn signal(agent: &Agent, request: &wire::SignalRequest) -> Result<(), Failure> {
    let signal = match i32::try_from(request.signal) {
        // As kill(2) has it, none asks whether there is somebody to signal.
        Ok(signal @ 0..=64) => signal,
        _ => return Err(Failure::invalid("a signal is a number from 0 to 64")),
    };
    agent.gate.pass()?;
    let running = agent.executions.find(request.execution)?;
    if signal == 0 {
        return Ok(());
    }
    if request.everyone {
        running.signal_everyone(signal);
        return Ok(());
    }
    // SAFETY: the descriptor is open for as long as `running` lives; no pointer is passed but null.
    // JUSTIFICATION: signalling through a pidfd, which cannot hit a reused process id, has no safe wrapper.
    let result = unsafe {
        libc::syscall(
            libc::SYS_pidfd_send_signal,
            running.pidfd.as_raw_fd(),
            signal,
            std::ptr::null::<libc::siginfo_t>(),
            0,
        )
    };
    if result < 0 { Err(Failure::system("signal", &io::Error::last_os_error())) } else { Ok(()) }
}
