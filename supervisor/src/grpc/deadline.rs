//! The deadline a caller gave a call. Tonic lets a stream run on, and tells a call with one answer that it was
//! cancelled, without a detail; so both are kept here.

use std::time::{Duration, Instant};

use tokio::time::timeout_at;
use tonic::codegen::http::HeaderMap;

use crate::service::ServiceError;

/// Digits the header may have.
const MAX_DIGITS: usize = 8;
/// How much earlier than tonic a call is given up, so that its caller hears why.
const EARLIER: Duration = Duration::from_millis(5);

/// What the `grpc-timeout` header says: a number and a unit.
pub(super) fn of(headers: &HeaderMap) -> Option<Duration> {
    let text = headers.get("grpc-timeout")?.to_str().ok()?;
    let (digits, unit) = text.split_at_checked(text.len().checked_sub(1)?)?;
    if digits.is_empty() || digits.len() > MAX_DIGITS {
        return None;
    }
    let number: u64 = digits.parse().ok()?;
    Some(match unit {
        "H" => Duration::from_secs(number * 3600),
        "M" => Duration::from_secs(number * 60),
        "S" => Duration::from_secs(number),
        "m" => Duration::from_millis(number),
        "u" => Duration::from_micros(number),
        "n" => Duration::from_nanos(number),
        _ => return None,
    })
}

/// Gives work up, by dropping it, when the time of a call that began then is over. Tonic counts from the headers
/// as well, and looks at the work before it looks at its clock: told earlier, however busy the host, is told first.
pub(super) async fn keep<T>(
    began: Instant,
    within: Option<Duration>,
    work: impl Future<Output = Result<T, ServiceError>>,
) -> Result<T, ServiceError> {
    let Some(after) = within else { return work.await };
    match timeout_at((began + (after - EARLIER.min(after / 2))).into(), work).await {
        Ok(done) => done,
        Err(_) => Err(ServiceError::Deadline { after }),
    }
}

#[cfg(test)]
mod tests {
    //! Headers and what is none.

    use super::*;

    #[test]
    fn a_deadline_is_a_number_and_a_unit() {
        let read = |text: &str| {
            let mut headers = HeaderMap::new();
            headers.insert("grpc-timeout", text.parse().expect("a header"));
            of(&headers)
        };
        assert_eq!(read("250m"), Some(Duration::from_millis(250)));
        assert_eq!(read("2S"), Some(Duration::from_secs(2)));
        assert_eq!(read("99999999H"), Some(Duration::from_secs(99_999_999 * 3600)));
        for wrong in ["", "S", "1", "1x", "-1S", "999999999S", "1.5S"] {
            assert_eq!(read(wrong), None, "{wrong:?}");
        }
        assert_eq!(of(&HeaderMap::new()), None);
    }
}
