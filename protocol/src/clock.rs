//! What the clock of an execution may be: the one rule by which both sides check it. It reads no clock.

use crate::limits::{CLOCK_END_NANOS, CLOCK_FIRST_NANOS, MAX_TIMEZONE_BYTES};

/// Why a clock is refused.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum InvalidClock {
    /// A moment that no clock starts at.
    #[error(
        "the clock of an execution starts at 1980-01-01T00:00:00Z or later, and before 2200-01-01T00:00:00Z"
    )]
    Moment,
    /// A text that names no time zone.
    #[error("a time zone is named as in the IANA database, such as Europe/Berlin or UTC")]
    Timezone,
}

/// Checks where a clock starts, in nanoseconds since 1970, and the name of a time zone. Zero and empty mean none.
///
/// # Errors
/// See [`InvalidClock`].
pub fn check(unix_nanos: u64, timezone: &str) -> Result<(), InvalidClock> {
    if unix_nanos != 0 && !(CLOCK_FIRST_NANOS..CLOCK_END_NANOS).contains(&unix_nanos) {
        return Err(InvalidClock::Moment);
    }
    if timezone.is_empty() || is_timezone(timezone) { Ok(()) } else { Err(InvalidClock::Timezone) }
}

/// Whether something can be the name of a time zone: it is also the path of a file, and can lead nowhere else.
fn is_timezone(name: &str) -> bool {
    let part = |part: &str| {
        part.starts_with(|c: char| c.is_ascii_alphabetic())
            && part.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"_+-".contains(&byte))
    };
    name.len() <= MAX_TIMEZONE_BYTES && name.split('/').all(part)
}

#[cfg(test)]
mod tests {
    //! What is a clock and what is not.

    use super::*;

    #[test]
    fn a_clock_starts_where_programs_and_their_files_can_tell_the_time() {
        for right in [0, CLOCK_FIRST_NANOS, 1_704_164_645_000_000_001, CLOCK_END_NANOS - 1] {
            assert_eq!(check(right, ""), Ok(()), "{right}");
        }
        for wrong in [1, CLOCK_FIRST_NANOS - 1, CLOCK_END_NANOS, u64::MAX] {
            assert_eq!(check(wrong, ""), Err(InvalidClock::Moment), "{wrong}");
        }
    }

    #[test]
    fn a_time_zone_is_a_name_and_no_path_to_anywhere_else() {
        let right =
            ["UTC", "Europe/Berlin", "America/Argentina/Buenos_Aires", "Etc/GMT+5", "America/Port-au-Prince"];
        for right in right {
            assert_eq!(check(0, right), Ok(()), "{right}");
        }
        let long = "A".repeat(MAX_TIMEZONE_BYTES + 1);
        let wrong = [
            "/etc/passwd",
            "../passwd",
            "Europe/../../x",
            "Europe//Berlin",
            "Europe/",
            ":UTC",
            "+02:00",
            "a b",
        ];
        for wrong in wrong.into_iter().chain(["CET-1CEST,M3.5.0", "a\0", "\u{e9}", &long]) {
            assert_eq!(check(0, wrong), Err(InvalidClock::Timezone), "{wrong:?}");
        }
    }
}
