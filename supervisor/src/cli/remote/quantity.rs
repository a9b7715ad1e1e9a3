//! Sizes, durations and moments as people read them.

use std::time::{Duration, SystemTime};

use jiff::Timestamp;
use rekindle_api::time::{from_duration, from_timestamp};

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

/// A size, or a dash where it is not known or nothing.
pub fn known_size(bytes: Option<u64>) -> String {
    size_or_dash(bytes.unwrap_or(0))
}

/// A short duration of an answer, from microseconds up; a dash where there is none.
pub fn short(time: Option<rekindle_api::Duration>) -> String {
    let Some(time) = time.and_then(from_duration) else { return "-".into() };
    let seconds = time.as_secs_f64();
    match time.as_micros() {
        0..1_000 => format!("{} µs", time.as_micros()),
        1_000..1_000_000 => format!("{:.1} ms", seconds * 1e3),
        1_000_000..120_000_000 => format!("{seconds:.1} s"),
        _ => span(time),
    }
}

/// A long duration of an answer.
pub fn long(time: Option<rekindle_api::Duration>) -> String {
    time.and_then(from_duration).map_or_else(|| "-".into(), span)
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

/// How long before `now` this was, or how long after: nothing where it was not.
pub fn between(from: Option<rekindle_api::Timestamp>, now: SystemTime) -> Duration {
    let at = from.and_then(from_timestamp).unwrap_or(now);
    now.duration_since(at).unwrap_or_else(|before| before.duration())
}

/// Processors from their thousandths: `0.5`, `2`.
pub fn cpus(millis: u64) -> String {
    format!("{}", millis as f64 / 1000.0)
}

/// A moment in UTC, to the second. A guest's may be any.
pub fn moment(at: Option<rekindle_api::Timestamp>) -> String {
    written(at, "%Y-%m-%d %H:%M:%S")
}

/// A moment in UTC, to the minute.
pub fn minute(at: Option<rekindle_api::Timestamp>) -> String {
    written(at, "%Y-%m-%d %H:%M")
}

fn written(at: Option<rekindle_api::Timestamp>, form: &str) -> String {
    let moment = at.and_then(|at| Timestamp::new(at.seconds, at.nanos).ok());
    moment.map_or_else(|| "-".into(), |moment| moment.strftime(form).to_string())
}

#[cfg(test)]
mod tests {
    //! What a person reads.

    use rekindle_api::time::duration;

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
        let short = |micros: u64| short(Some(duration(Duration::from_micros(micros))));
        assert_eq!(short(999), "999 µs");
        assert_eq!(short(1_500), "1.5 ms");
        assert_eq!(short(2_500_000), "2.5 s");
        assert_eq!(short(130_000_000), "2 min 10 s");
        let long = |millis: u64| long(Some(duration(Duration::from_millis(millis))));
        assert_eq!(long(119_999), "119 s");
        assert_eq!(long(7_500_000), "2 h 5 min");
        assert_eq!(long(200_000_000), "2 d 7 h");
        assert_eq!(super::long(None), "-");
    }

    #[test]
    fn moments_are_utc_and_any_number_is_taken() {
        let at = |seconds: i64| Some(rekindle_api::Timestamp { seconds, nanos: 0 });
        assert_eq!(moment(at(1_700_000_000)), "2023-11-14 22:13:20");
        assert_eq!(minute(at(1_700_000_000)), "2023-11-14 22:13");
        assert_eq!(minute(at(-1)), "1969-12-31 23:59");
        for impossible in [at(i64::MAX), at(i64::MIN), None] {
            assert_eq!(moment(impossible), "-");
        }
    }

    #[test]
    fn a_distance_has_no_direction() {
        let now = SystemTime::UNIX_EPOCH + Duration::from_secs(100);
        let at = |seconds: i64| Some(rekindle_api::Timestamp { seconds, nanos: 0 });
        assert_eq!(between(at(40), now), Duration::from_secs(60));
        assert_eq!(between(at(130), now), Duration::from_secs(30));
        assert_eq!(between(None, now), Duration::ZERO);
    }

    #[test]
    fn processors_are_shown_as_numbers() {
        assert_eq!(cpus(500), "0.5");
        assert_eq!(cpus(2_000), "2");
    }
}
