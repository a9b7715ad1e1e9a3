//! Numbers as a person reads them: as many digits as carry meaning.

use crate::stats::Figure;

/// Three digits, whatever the size.
#[must_use]
pub fn digits(value: f64) -> String {
    let magnitude = value.abs();
    if magnitude >= 1000.0 {
        let whole = format!("{value:.0}");
        let cut = whole.len() - 3;
        format!("{},{}", &whole[..cut], &whole[cut..])
    } else if magnitude >= 100.0 {
        format!("{value:.0}")
    } else if magnitude >= 10.0 {
        format!("{value:.1}")
    } else {
        format!("{value:.2}")
    }
}

/// A figure, or a dash where there is none. Why there is none is said elsewhere.
#[must_use]
pub fn figure(figure: &Figure) -> String {
    figure.value().map_or_else(|| "–".to_owned(), digits)
}

/// A date and time in UTC, from seconds since 1970.
#[must_use]
pub fn date(unix_seconds: u64) -> String {
    let seconds = i64::try_from(unix_seconds).unwrap_or(i64::MAX);
    let time = jiff::Timestamp::from_second(seconds).unwrap_or(jiff::Timestamp::MAX);
    time.strftime("%Y-%m-%d %H:%M UTC").to_string()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn three_digits_are_enough() {
        assert_eq!(digits(0.1234), "0.12");
        assert_eq!(digits(12.34), "12.3");
        assert_eq!(digits(123.4), "123");
        assert_eq!(digits(1234.5), "1,234");
    }

    #[test]
    fn seconds_become_a_date() {
        assert_eq!(date(0), "1970-01-01 00:00 UTC");
        assert_eq!(date(951_827_696), "2000-02-29 12:34 UTC");
        assert_eq!(date(1_767_225_599), "2025-12-31 23:59 UTC");
    }
}
