//! How an execution ended, and the exit code that tells a shell.

use anyhow::bail;
use rekindle_api::v1::ExecuteResponse;
use rekindle_api::v1::execution_outcome::Outcome;
use serde::Serialize;

use crate::cli::OWN_FAILURE;
use crate::cli::interrupt::SIGNAL_BASE;

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
    /// The agent in the sandbox was lost; of a server that is an error.
    AgentLost {
        /// Why.
        message: String,
    },
    /// The machine was lost; of a server that is an error.
    VmLost {
        /// Why.
        message: String,
    },
}

impl End {
    /// The end an answer tells of.
    pub fn of(response: &ExecuteResponse) -> anyhow::Result<Self> {
        let outcome = response.outcome.as_ref().and_then(|outcome| outcome.outcome.as_ref());
        let end = outcome.and_then(|outcome| {
            Some(match outcome {
                Outcome::ExitCode(code) => Self::Exited { code: u8::try_from(*code).ok()? },
                Outcome::Signal(signal) => Self::Signaled { signal: u8::try_from(*signal).ok()? },
                Outcome::TimedOut(_) => Self::TimedOut,
                Outcome::OutOfMemory(_) => Self::OutOfMemory,
                Outcome::Cancelled(_) => Self::Cancelled,
            })
        });
        match end {
            Some(end) => Ok(end),
            None => bail!(
                "the server tells of an end this version does not know\nhint: use a client of its version"
            ),
        }
    }

    /// What this process exits with.
    pub fn code(&self) -> u8 {
        match self {
            Self::Exited { code } => *code,
            Self::Signaled { signal } => SIGNAL_BASE.saturating_add(*signal),
            Self::TimedOut => TIMED_OUT,
            Self::OutOfMemory => OUT_OF_MEMORY,
            Self::Cancelled => SIGNAL_BASE + 2,
            Self::AgentLost { .. } | Self::VmLost { .. } => OWN_FAILURE,
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
            Self::AgentLost { message } => Some(format!("the agent in the sandbox was lost: {message}")),
            Self::VmLost { message } => Some(format!("the sandbox was lost: {message}")),
        }
    }
}

#[cfg(test)]
mod tests {
    //! What a shell sees.

    use rekindle_api::v1::{ExecutionCancelled, ExecutionOutOfMemory, ExecutionOutcome, ExecutionTimedOut};

    use super::*;

    fn code(outcome: Option<Outcome>) -> Option<u8> {
        let outcome = Some(ExecutionOutcome { outcome });
        let response = ExecuteResponse { outcome, ..ExecuteResponse::default() };
        End::of(&response).ok().map(|end| end.code())
    }

    #[test]
    fn exit_codes_are_those_a_shell_knows() {
        assert_eq!(code(Some(Outcome::ExitCode(0))), Some(0));
        assert_eq!(code(Some(Outcome::ExitCode(255))), Some(255));
        assert_eq!(code(Some(Outcome::Signal(9))), Some(137));
        assert_eq!(code(Some(Outcome::Signal(255))), Some(255));
        assert_eq!(code(Some(Outcome::TimedOut(ExecutionTimedOut {}))), Some(124));
        assert_eq!(code(Some(Outcome::OutOfMemory(ExecutionOutOfMemory {}))), Some(137));
        assert_eq!(code(Some(Outcome::Cancelled(ExecutionCancelled {}))), Some(130));
    }

    #[test]
    fn an_end_that_cannot_be_is_never_taken_for_success() {
        assert_eq!(code(None), None, "a newer server's word");
        assert_eq!(code(Some(Outcome::ExitCode(256))), None);
        assert_eq!(code(Some(Outcome::Signal(256))), None);
        assert!(End::of(&ExecuteResponse::default()).is_err());
    }

    #[test]
    fn programs_read_the_end_by_its_kind() {
        let json = serde_json::to_string(&End::Exited { code: 3 }).expect("it can be shown");
        assert_eq!(json, r#"{"kind":"exited","code":3}"#);
    }
}
