//! Sets the wall clock, which otherwise resumes at the moment of the snapshot.

use std::io;
use std::time::Duration;

use nix::sys::time::TimeSpec;
use nix::time::{ClockId, clock_settime};

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
