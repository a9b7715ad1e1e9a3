//! Times and durations of the API in the standard library's words, and back. What does not fit saturates on the way
//! out and is refused on the way in.

use std::time::{Duration, SystemTime, UNIX_EPOCH};

/// A duration for a message.
#[must_use]
pub fn duration(time: Duration) -> prost_types::Duration {
    prost_types::Duration {
        seconds: i64::try_from(time.as_secs()).unwrap_or(i64::MAX),
        // Less than a second's worth always fits.
        nanos: i32::try_from(time.subsec_nanos()).unwrap_or(0),
    }
}

/// A moment for a message. One before 1970 becomes 1970.
#[must_use]
pub fn timestamp(at: SystemTime) -> prost_types::Timestamp {
    let since = duration(at.duration_since(UNIX_EPOCH).unwrap_or_default());
    prost_types::Timestamp { seconds: since.seconds, nanos: since.nanos }
}

/// A duration of a message; `None` when it is negative or none at all.
#[must_use]
pub fn from_duration(time: prost_types::Duration) -> Option<Duration> {
    let nanos = u32::try_from(time.nanos).ok().filter(|nanos| *nanos < 1_000_000_000)?;
    Some(Duration::new(u64::try_from(time.seconds).ok()?, nanos))
}

/// A moment of a message; `None` when it is before 1970 or none at all.
#[must_use]
pub fn from_timestamp(at: prost_types::Timestamp) -> Option<SystemTime> {
    let since = from_duration(prost_types::Duration { seconds: at.seconds, nanos: at.nanos })?;
    UNIX_EPOCH.checked_add(since)
}

#[cfg(test)]
mod tests {
    //! There and back.

    use super::*;

    #[test]
    fn a_duration_survives_the_wire() {
        for time in [Duration::ZERO, Duration::from_nanos(1), Duration::new(86_400, 999_999_999)] {
            assert_eq!(from_duration(duration(time)), Some(time));
        }
        assert_eq!(duration(Duration::MAX).seconds, i64::MAX, "what does not fit is as much as fits");
    }

    #[test]
    fn a_negative_or_impossible_duration_is_none() {
        for (seconds, nanos) in [(-1, 0), (0, -1), (0, 1_000_000_000), (i64::MIN, 0)] {
            assert_eq!(from_duration(prost_types::Duration { seconds, nanos }), None);
        }
    }

    #[test]
    fn a_moment_survives_the_wire() {
        let at = UNIX_EPOCH + Duration::new(1_700_000_000, 5);
        assert_eq!(from_timestamp(timestamp(at)), Some(at));
        assert_eq!(timestamp(UNIX_EPOCH - Duration::from_secs(1)).seconds, 0);
        assert_eq!(from_timestamp(prost_types::Timestamp { seconds: -1, nanos: 0 }), None);
    }
}
