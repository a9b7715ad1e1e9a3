//! Sets the wall clock, which otherwise resumes at the moment of the snapshot, or of a pause.

use std::io;
use std::time::Duration;

use nix::sys::time::TimeSpec;
use nix::time::{ClockId, clock_settime};
use rekindle_protocol::wire;

use crate::agent::Agent;
use crate::failure::Failure;

/// Carries out a clock request.
///
/// # Errors
/// When the gate is not open, the time is none, or the kernel refuses.
pub fn adjust(agent: &Agent, request: &wire::ClockRequest) -> Result<(), Failure> {
    if request.unix_nanos == 0 {
        return Err(Failure::invalid("a clock is set to some time after 1970"));
    }
    agent.gate.pass()?;
    set(request.unix_nanos).map_err(|error| Failure::internal("clock", &error))
}

/// Sets it to `unix_nanos`; 0 leaves it alone.
///
/// # Errors
/// When the kernel refuses.
pub fn set(unix_nanos: u64) -> io::Result<()> {
    if unix_nanos == 0 {
        return Ok(());
    }
    clock_settime(ClockId::CLOCK_REALTIME, TimeSpec::from_duration(Duration::from_nanos(unix_nanos)))?;
    Ok(())
}
