//! Changes the size of a running execution's terminal.

use std::os::fd::AsRawFd;

use nix::pty::Winsize;
use rekindle_protocol::wire;

use crate::agent::Agent;
use crate::exec::spec;
use crate::failure::Failure;

nix::ioctl_write_ptr_bad!(
    /// TIOCSWINSZ: the kernel tells the programs on the terminal.
    set_window_size, libc::TIOCSWINSZ, Winsize
);

/// Carries out a resize request.
///
/// # Errors
/// When the execution does not run or has no terminal.
pub fn resize(agent: &Agent, request: &wire::ResizeRequest) -> Result<(), Failure> {
    let size = spec::window(request.size.unwrap_or_default())?;
    agent.gate.pass()?;
    let running = agent.executions.find(request.execution)?;
    let Some(terminal) = &running.terminal else {
        return Err(Failure::invalid("the execution has no terminal"));
    };
    // SAFETY: the descriptor is open for as long as `running` lives and `size` is a live `winsize`.
    // JUSTIFICATION: there is no safe wrapper.
    unsafe { set_window_size(terminal.as_raw_fd(), &size) }
        .map_err(|error| Failure::system("resize", &error.into()))?;
    Ok(())
}
