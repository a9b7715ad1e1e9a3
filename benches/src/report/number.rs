//! Numbers as a person reads them: as many digits as carry meaning.

use crate::record::Unit;
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

/// With its unit.
#[must_use]
pub fn with_unit(value: f64, unit: Unit) -> String {
    format!("{} {}", digits(value), unit.symbol())
}

/// A figure, or a dash where there is none. Why there is none is said elsewhere.
#[must_use]
pub fn figure(figure: &Figure) -> String {
    figure.value().map_or_else(|| "–".to_owned(), digits)
}

/// A date and time in UTC, from seconds since 1970.
#[must_use]
pub fn date(unix_seconds: u64) -> String {
    let (days, seconds) = (unix_seconds / 86_400, unix_seconds % 86_400);
    // Civil from days, counted in eras of 400 years that begin in March.
    let shifted = days + 719_468;
    let (era, day_of_era) = (shifted / 146_097, shifted % 146_097);
    let year_of_era = (day_of_era - day_of_era / 1460 + day_of_era / 36_524 - day_of_era / 146_096) / 365;
    let day_of_year = day_of_era - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
    let shifted_month = (5 * day_of_year + 2) / 153;
    let day = day_of_year - (153 * shifted_month + 2) / 5 + 1;
    let month = if shifted_month < 10 { shifted_month + 3 } else { shifted_month - 9 };
    let year = year_of_era + era * 400 + u64::from(month <= 2);
    format!("{year}-{month:02}-{day:02} {:02}:{:02} UTC", seconds / 3600, seconds / 60 % 60)
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
