//! Moments and durations as protobuf's own JSON has them: `2026-01-31T12:00:00Z` and `1.5s`.

use jiff::Timestamp;

/// A moment, where there is one that can be written.
pub fn moment(at: Option<rekindle_api::Timestamp>) -> Option<String> {
    let at = at?;
    Timestamp::new(at.seconds, at.nanos).ok().map(|at| at.to_string())
}

/// A duration, where there is one.
pub fn seconds(time: Option<rekindle_api::Duration>) -> Option<String> {
    let time = time?;
    let fraction = format!("{:09}", time.nanos.unsigned_abs());
    let sign = if time.nanos < 0 && time.seconds == 0 { "-" } else { "" };
    Some(match fraction.trim_end_matches('0') {
        "" => format!("{}s", time.seconds),
        fraction => format!("{sign}{}.{fraction}s", time.seconds),
    })
}

/// The same of a duration that was measured here, to the microsecond.
pub fn measured(time: std::time::Duration) -> String {
    let nanos = i32::try_from(time.subsec_micros() * 1_000).unwrap_or(0);
    let seconds = i64::try_from(time.as_secs()).unwrap_or(i64::MAX);
    self::seconds(Some(rekindle_api::Duration { seconds, nanos })).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    //! What a program reads.

    use rekindle_api::{Duration, Timestamp};

    use super::*;

    #[test]
    fn times_read_as_other_tools_print_them() {
        let time = |seconds, nanos| seconds_of(seconds, nanos).expect("a time");
        assert_eq!(time(90, 0), "90s");
        assert_eq!(time(1, 500_000_000), "1.5s");
        assert_eq!(time(0, 1_000), "0.000001s");
        assert_eq!(time(0, -500_000_000), "-0.5s");
        assert_eq!(super::seconds(None), None);
        assert_eq!(measured(std::time::Duration::from_nanos(1_250_001_999)), "1.250001s");
        let at = moment(Some(Timestamp { seconds: 1_700_000_000, nanos: 0 }));
        assert_eq!(at.as_deref(), Some("2023-11-14T22:13:20Z"));
        assert_eq!(moment(Some(Timestamp { seconds: i64::MAX, nanos: 0 })), None);
    }

    fn seconds_of(seconds: i64, nanos: i32) -> Option<String> {
        super::seconds(Some(Duration { seconds, nanos }))
    }
}
