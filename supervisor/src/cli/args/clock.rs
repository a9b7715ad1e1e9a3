//! Options for the clock of a program, of `run` and `exec`.

use std::time::SystemTime;

use clap::Args;
use rekindle::agent::{ExecutionClock, InvalidClock};
use rekindle_api::Timestamp;
use rekindle_api::time::from_timestamp;

/// What the program is told of the time.
#[derive(Debug, Clone, Default, Args)]
pub struct ClockOptions {
    /// Where the program's clock starts, such as 2024-01-02T03:04:05Z; the sandbox's own clock when left out
    #[arg(long, value_name = "TIME", value_parser = now)]
    pub now: Option<SystemTime>,
    /// The program's time zone, such as Europe/Berlin; the sandbox's, UTC, when left out
    #[arg(long, value_name = "ZONE", default_value = "", hide_default_value = true, value_parser = timezone)]
    pub timezone: String,
}

/// A moment that a clock can start at, with its distance to UTC: without it nobody knows which moment it is.
fn now(text: &str) -> Result<SystemTime, String> {
    let time = text.split_once(['T', 't', ' ']).map_or("", |(_, time)| time);
    let moment = text.parse::<Timestamp>().ok().filter(|_| time.contains(['Z', 'z', '+', '-']));
    let Some(moment) = moment else {
        return Err("a moment such as 2024-01-02T03:04:05Z or 2024-01-02T03:04:05+01:00 is needed".into());
    };
    let at = from_timestamp(moment).ok_or(InvalidClock::Moment);
    at.and_then(|at| ExecutionClock::new(Some(at), "").map(|_| at)).map_err(|error| error.to_string())
}

fn timezone(text: &str) -> Result<String, String> {
    ExecutionClock::new(None, text).map(|_| text.to_owned()).map_err(|error| error.to_string())
}

#[cfg(test)]
mod tests {
    //! Moments that are taken and moments that are not.

    use std::time::{Duration, UNIX_EPOCH};

    use super::*;

    #[test]
    fn a_clock_starts_at_a_moment_that_is_told_whole() {
        let at = UNIX_EPOCH + Duration::from_secs(1_704_164_645);
        for right in ["2024-01-02T03:04:05Z", "2024-01-02T04:04:05+01:00", "2024-01-01T22:04:05-05:00"] {
            assert_eq!(now(right), Ok(at), "{right}");
        }
        assert_eq!(now("2024-01-02T03:04:05.25Z"), Ok(at + Duration::from_millis(250)));
        for wrong in
            ["", "yesterday", "2024-01-02", "2024-01-02T03:04:05", "2024-13-02T03:04:05Z", "1704164645"]
        {
            assert!(now(wrong).is_err_and(|why| why.contains("such as")), "{wrong:?}");
        }
        for wrong in ["1979-12-31T23:59:59Z", "1960-01-01T00:00:00Z", "2200-01-01T00:00:00Z"] {
            assert!(now(wrong).is_err_and(|why| why.contains("1980")), "{wrong:?}");
        }
    }

    #[test]
    fn a_time_zone_is_a_name() {
        assert_eq!(timezone("Europe/Berlin"), Ok("Europe/Berlin".to_owned()));
        assert!(timezone("../x").is_err_and(|why| why.contains("such as Europe/Berlin")));
    }
}
