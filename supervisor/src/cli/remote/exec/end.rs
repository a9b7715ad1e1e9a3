//! How an execution ended, and the exit code that tells a shell. The codes are those of `rekindle run`.

use anyhow::bail;
use rekindle_api::v1::{ExecuteResponse, Outcome};
use serde::Serialize;

use crate::cli::remote::interrupt::SIGNAL_BASE;

/// Exit codes a shell user knows, for ends that are no exit code.
const TIMED_OUT: u8 = 124;
const OUT_OF_MEMORY: u8 = 137;

/// An end.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(tag = "kind", rename_all = "snake_case")]
pub enum End {
    /// Returned this exit code.
    Exited {
        /// The code.
        code: u8,
    },
    /// Was ended by this signal.
    Signaled {
        /// Its number.
        signal: u8,
    },
    /// Ran into its wall-clock limit.
    TimedOut,
    /// Ran into its memory limit.
    OutOfMemory,
    /// Was killed because its caller went away.
    Cancelled,
}

impl End {
    /// The end a server tells of.
    pub fn of(response: &ExecuteResponse) -> anyhow::Result<Self> {
        Ok(match (response.outcome(), u8::try_from(response.exit_code), u8::try_from(response.signal)) {
            (Outcome::Exited, Ok(code), _) => Self::Exited { code },
            (Outcome::Signaled, _, Ok(signal)) => Self::Signaled { signal },
            (Outcome::TimedOut, ..) => Self::TimedOut,
            (Outcome::OutOfMemory, ..) => Self::OutOfMemory,
            (Outcome::Cancelled, ..) => Self::Cancelled,
            (Outcome::Exited | Outcome::Signaled | Outcome::Unspecified, ..) => {
                bail!(
                    "the server tells of an end this version does not know\nhint: use a client of its version"
                )
            }
        })
    }

    /// What this process exits with.
    pub fn code(&self) -> u8 {
        match self {
            Self::Exited { code } => *code,
            Self::Signaled { signal } => SIGNAL_BASE.saturating_add(*signal),
            Self::TimedOut => TIMED_OUT,
            Self::OutOfMemory => OUT_OF_MEMORY,
            Self::Cancelled => SIGNAL_BASE + 2,
        }
    }

    /// What a person is told beside the code.
    pub fn note(&self) -> Option<String> {
        match self {
            Self::Exited { .. } => None,
            Self::Signaled { signal } => Some(format!("the program was ended by signal {signal}")),
            Self::TimedOut => Some("the program ran into its time limit; --timeout sets another".into()),
            Self::OutOfMemory => Some("the program ran out of memory".into()),
            Self::Cancelled => Some("the program was cancelled".into()),
        }
    }
}

#[cfg(test)]
mod tests {
    //! What a shell sees.

    use super::*;

    fn code(outcome: Outcome, exit_code: u32, signal: u32) -> Option<u8> {
        let response =
            ExecuteResponse { outcome: outcome.into(), exit_code, signal, ..ExecuteResponse::default() };
        End::of(&response).ok().map(|end| end.code())
    }

    #[test]
    fn exit_codes_are_those_of_run() {
        assert_eq!(code(Outcome::Exited, 0, 0), Some(0));
        assert_eq!(code(Outcome::Exited, 255, 0), Some(255));
        assert_eq!(code(Outcome::Signaled, 0, 9), Some(137));
        assert_eq!(code(Outcome::Signaled, 0, 255), Some(255));
        assert_eq!(code(Outcome::TimedOut, 0, 0), Some(124));
        assert_eq!(code(Outcome::OutOfMemory, 0, 0), Some(137));
        assert_eq!(code(Outcome::Cancelled, 0, 0), Some(130));
    }

    #[test]
    fn an_end_that_cannot_be_is_never_taken_for_success() {
        assert_eq!(code(Outcome::Unspecified, 0, 0), None);
        assert_eq!(code(Outcome::Exited, 256, 0), None);
        assert_eq!(code(Outcome::Signaled, 0, 256), None);
        let unknown = ExecuteResponse { outcome: 99, ..ExecuteResponse::default() };
        assert!(End::of(&unknown).is_err());
    }

    #[test]
    fn programs_read_the_end_as_run_prints_it() {
        let json = serde_json::to_string(&End::Exited { code: 3 }).expect("it can be shown");
        assert_eq!(json, r#"{"kind":"exited","code":3}"#);
    }
}
