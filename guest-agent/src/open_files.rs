//! The limit of open files: raised for the agent, and given back to the programs it starts.
//!
//! An execution takes about ten descriptors while it runs, and the kernel's usual soft limit of 1,024 would be the end
//! of a hundred of them. Programs get the limits they would have had without the agent.

use std::io;

use nix::sys::resource::{Resource, getrlimit, rlim_t, setrlimit};

/// Enough for [`MAX_EXECUTIONS`](rekindle_protocol::limits::MAX_EXECUTIONS), for what their background children leave
/// open, and for file operations beside them.
const WANTED: rlim_t = 16 * 1024;

/// What programs are given.
#[derive(Debug, Clone, Copy)]
pub struct Programs {
    /// The soft limit.
    pub soft: rlim_t,
    /// The hard limit.
    pub hard: rlim_t,
}

/// Raises the limits of this process as far as it may, and says what they were.
///
/// # Errors
/// When they cannot be read.
pub fn raise() -> io::Result<Programs> {
    let (soft, hard) = getrlimit(Resource::RLIMIT_NOFILE)?;
    let more = soft.max(WANTED);
    if setrlimit(Resource::RLIMIT_NOFILE, more, hard.max(more)).is_err() {
        // Beyond the hard limit is root's alone, within a bound of the kernel's.
        setrlimit(Resource::RLIMIT_NOFILE, hard, hard)?;
    }
    Ok(Programs { soft, hard })
}
