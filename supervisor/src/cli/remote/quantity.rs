//! Sizes, durations and moments as people read them.

use std::time::{Duration, SystemTime, UNIX_EPOCH};

use jiff::Timestamp;

/// A size such as `1.5 MiB`.
pub fn size(bytes: u64) -> String {
    const UNITS: [&str; 5] = ["KiB", "MiB", "GiB", "TiB", "PiB"];
    if bytes < 1024 {
        return format!("{bytes} B");
    }
    let mut value = bytes as f64 / 1024.0;
    let mut unit = 0;
    // Whatever would be shown as 1024 of one unit is 1 of the next.
    while value >= 1023.95 && unit + 1 < UNITS.len() {
        value /= 1024.0;
        unit += 1;
    }
    format!("{value:.1} {}", UNITS[unit])
}

/// A size, or a dash where there is none.
pub fn size_or_dash(bytes: u64) -> String {
    if bytes == 0 { "-".into() } else { size(bytes) }
}

/// A short duration, from microseconds up.
pub fn micros(micros: u64) -> String {
    match micros {
        0..1_000 => format!("{micros} µs"),
        1_000..1_000_000 => format!("{:.1} ms", micros as f64 / 1e3),
        1_000_000..120_000_000 => format!("{:.1} s", micros as f64 / 1e6),
        _ => span(Duration::from_micros(micros)),
    }
}

/// A long duration in its two largest units: `2 h 5 min`.
pub fn span(span: Duration) -> String {
    let seconds = span.as_secs();
    match seconds {
        0..120 => format!("{seconds} s"),
        120..7_200 => format!("{} min {} s", seconds / 60, seconds % 60),
        7_200..172_800 => format!("{} h {} min", seconds / 3_600, seconds / 60 % 60),
        _ => format!("{} d {} h", seconds / 86_400, seconds / 3_600 % 24),
    }
}

/// A long duration given in milliseconds.
pub fn millis(millis: u64) -> String {
    span(Duration::from_millis(millis))
}

/// Milliseconds of a duration for a request; none means the server's default.
pub fn to_millis(span: Option<Duration>) -> u64 {
    span.map_or(0, |span| u64::try_from(span.as_millis()).unwrap_or(u64::MAX))
}

/// Processors from their thousandths: `0.5`, `2`.
pub fn cpus(millis: u64) -> String {
    format!("{}", millis as f64 / 1000.0)
}

/// Now, in unix milliseconds.
pub fn now_millis() -> u64 {
    let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    u64::try_from(now.as_millis()).unwrap_or(u64::MAX)
}

/// A moment in UTC, to the second.
pub fn moment(millis: u64) -> String {
    let moment = i64::try_from(millis).ok().and_then(|millis| Timestamp::from_millisecond(millis).ok());
    moment.map_or_else(|| "-".into(), |moment| moment.strftime("%Y-%m-%d %H:%M:%S").to_string())
}

/// A moment of a guest's clock, which may be any.
pub fn moment_of_nanos(nanos: i64) -> String {
    let moment = Timestamp::from_nanosecond(i128::from(nanos));
    moment.map_or_else(|_| "-".into(), |moment| moment.strftime("%Y-%m-%d %H:%M").to_string())
}

#[cfg(test)]
mod tests {
    //! What a person reads.

    use super::*;

    #[test]
    fn sizes_have_a_unit_that_fits() {
        assert_eq!(size(0), "0 B");
        assert_eq!(size(1023), "1023 B");
        assert_eq!(size(1536), "1.5 KiB");
        assert_eq!(size(1024 * 1024 - 1), "1.0 MiB");
        assert_eq!(size(u64::MAX), "16384.0 PiB");
        assert_eq!(size_or_dash(0), "-");
    }

    #[test]
    fn durations_have_a_unit_that_fits() {
        assert_eq!(micros(999), "999 µs");
        assert_eq!(micros(1_500), "1.5 ms");
        assert_eq!(micros(2_500_000), "2.5 s");
        assert_eq!(micros(130_000_000), "2 min 10 s");
        assert_eq!(millis(119_999), "119 s");
        assert_eq!(millis(7_500_000), "2 h 5 min");
        assert_eq!(millis(200_000_000), "2 d 7 h");
    }

    #[test]
    fn moments_are_utc_and_any_number_is_taken() {
        assert_eq!(moment(1_700_000_000_000), "2023-11-14 22:13:20");
        assert_eq!(moment(u64::MAX), "-");
        assert_eq!(moment_of_nanos(1_700_000_000_000_000_000), "2023-11-14 22:13");
        assert!(!moment_of_nanos(i64::MIN).is_empty());
    }

    #[test]
    fn no_time_asks_for_the_servers() {
        assert_eq!(to_millis(None), 0);
        assert_eq!(to_millis(Some(Duration::from_secs(2))), 2_000);
        assert_eq!(cpus(500), "0.5");
        assert_eq!(cpus(2_000), "2");
    }
}
