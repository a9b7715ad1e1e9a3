//! How long the caller gives a call.

use std::time::Duration;

use axum::http::HeaderMap;

use super::code::ConnectError;

/// Digits the header may have.
const MAX_DIGITS: usize = 10;

/// What `Connect-Timeout-Ms` says, where it is there.
pub(in crate::http) fn timeout(headers: &HeaderMap) -> Result<Option<Duration>, ConnectError> {
    let Some(header) = headers.get("connect-timeout-ms") else { return Ok(None) };
    let digits = header.to_str().unwrap_or_default();
    let right = (1..=MAX_DIGITS).contains(&digits.len()) && digits.bytes().all(|byte| byte.is_ascii_digit());
    match digits.parse() {
        Ok(millis) if right => Ok(Some(Duration::from_millis(millis))),
        _ => Err(ConnectError::invalid("connect-timeout-ms is no number of milliseconds")),
    }
}

#[cfg(test)]
mod tests {
    //! Headers and what is none.

    use super::*;

    #[test]
    fn a_timeout_is_a_short_number() {
        let read = |text: &str| {
            let mut headers = HeaderMap::new();
            headers.insert("connect-timeout-ms", text.parse().expect("a header"));
            timeout(&headers)
        };
        assert_eq!(read("250"), Ok(Some(Duration::from_millis(250))));
        assert_eq!(read("9999999999"), Ok(Some(Duration::from_millis(9_999_999_999))));
        for wrong in ["", "-1", "+1", "1.5", "10000000000", "1s"] {
            assert!(read(wrong).is_err(), "{wrong:?}");
        }
        assert_eq!(timeout(&HeaderMap::new()), Ok(None));
    }
}
