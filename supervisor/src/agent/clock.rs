//! The clock of one execution: where it starts and its time zone. Checked once, at the edge.

use std::time::{SystemTime, UNIX_EPOCH};

use rekindle_protocol::clock;

pub use rekindle_protocol::clock::InvalidClock;

/// What programs of an execution are told of the time; the default is what the guest has.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct ExecutionClock {
    /// Nanoseconds since 1970; 0 for the guest's own clock.
    unix_nanos: u64,
    /// The name of a time zone; empty for the guest's.
    timezone: String,
}

impl ExecutionClock {
    /// A clock that starts at a moment, and a time zone; each may be left out.
    ///
    /// # Errors
    /// See [`InvalidClock`].
    pub fn new(now: Option<SystemTime>, timezone: &str) -> Result<Self, InvalidClock> {
        let nanos = |at: SystemTime| u64::try_from(at.duration_since(UNIX_EPOCH).ok()?.as_nanos()).ok();
        let unix_nanos = match now {
            None => 0,
            // The beginning of 1970 is a moment that was asked for, and too early.
            Some(at) => nanos(at).filter(|nanos| *nanos != 0).ok_or(InvalidClock::Moment)?,
        };
        clock::check(unix_nanos, timezone)?;
        Ok(Self { unix_nanos, timezone: timezone.to_owned() })
    }

    /// The name of its time zone; empty for the guest's.
    #[must_use]
    pub fn timezone(&self) -> &str {
        &self.timezone
    }

    /// For a request: where it starts, and the time zone.
    #[must_use]
    pub fn to_wire(&self) -> (u64, String) {
        (self.unix_nanos, self.timezone.clone())
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    #[test]
    fn a_clock_is_checked_and_what_is_left_out_is_the_guests() {
        assert_eq!(ExecutionClock::new(None, "").expect("none"), ExecutionClock::default());
        let at = UNIX_EPOCH + Duration::new(1_704_164_645, 7);
        let clock = ExecutionClock::new(Some(at), "Europe/Berlin").expect("a clock");
        assert_eq!(clock.to_wire(), (1_704_164_645_000_000_007, "Europe/Berlin".to_owned()));
        let later = |seconds| UNIX_EPOCH + Duration::from_secs(seconds);
        for wrong in
            [UNIX_EPOCH, later(1), later(7_258_118_400), later(1 << 40), UNIX_EPOCH - Duration::from_secs(1)]
        {
            assert_eq!(ExecutionClock::new(Some(wrong), ""), Err(InvalidClock::Moment), "{wrong:?}");
        }
        assert_eq!(ExecutionClock::new(None, "../x"), Err(InvalidClock::Timezone));
    }
}
