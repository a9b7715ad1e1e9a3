//! Times and sizes as people write them: `10m`, `1.5G`.
//!
//! One reading for the command line and the configuration. What may be asked for is theirs to say.

/// Up to here a size with a fraction is exact to the byte.
const EXACT: f64 = (1_u64 << 53) as f64;

/// A time of this many seconds: `90`, `1.5`, `90s`, `10m`, `2h` or `1d`. It may be negative or no number at all.
#[must_use]
pub fn seconds(text: &str) -> Option<f64> {
    let (digits, unit) = match text.char_indices().last()? {
        (at, 's') => (&text[..at], 1.0),
        (at, 'm') => (&text[..at], 60.0),
        (at, 'h') => (&text[..at], 3_600.0),
        (at, 'd') => (&text[..at], 86_400.0),
        _ => (text, 1.0),
    };
    digits.parse::<f64>().ok().map(|number| number * unit)
}

/// A size in bytes: `65536k`, `512M`, `1.5G`, `2T` or plain bytes.
#[must_use]
pub fn bytes(text: &str) -> Option<u64> {
    let digits = text.trim_end_matches(|c: char| c.is_ascii_alphabetic());
    let unit: u64 = match text[digits.len()..].to_ascii_lowercase().as_str() {
        "" | "b" => 1,
        "k" | "kb" | "kib" => 1 << 10,
        "m" | "mb" | "mib" => 1 << 20,
        "g" | "gb" | "gib" => 1 << 30,
        "t" | "tb" | "tib" => 1 << 40,
        _ => return None,
    };
    match digits.split_once('.') {
        None => digits.parse::<u64>().ok()?.checked_mul(unit),
        Some((whole, rest)) => {
            let is_number = |text: &str| !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit());
            let bytes = digits.parse::<f64>().ok()? * unit as f64;
            (unit > 1 && is_number(whole) && is_number(rest) && bytes <= EXACT).then_some(bytes as u64)
        }
    }
}

#[cfg(test)]
mod tests {
    //! What people write, and what is none.

    use super::*;

    #[test]
    fn sizes_have_units_and_with_one_a_fraction() {
        for (text, expected) in [
            ("0", 0),
            ("4096", 4096),
            ("64k", 64 << 10),
            ("512MiB", 512 << 20),
            ("1.5G", 3 << 29),
            ("0.25kb", 256),
            ("2T", 2 << 40),
            ("16777215T", 16_777_215 << 40),
            ("18446744073709551615", u64::MAX),
        ] {
            assert_eq!(bytes(text), Some(expected), "{text}");
        }
        for wrong in [
            "",
            "G",
            "1.5",
            ".5G",
            "1.G",
            "1.2.3G",
            "-1G",
            "1e3k",
            "1X",
            "1 G",
            "99999999T",
            "99999999.5T",
            "NaN",
        ] {
            assert_eq!(bytes(wrong), None, "{wrong}");
        }
    }
}
