//! The API's enums as words. A value this version does not know is `unknown`.

use rekindle_api::v1::detached_execution::State;
use rekindle_api::v1::execution_outcome::Outcome;
use rekindle_api::v1::timeline_outcome::Outcome as Came;
use rekindle_api::v1::{
    CodeLanguage, ErrorReason, ExecutionOutcome, FileEventKind, FileKind, OnTimeout, SandboxEndReason,
    SandboxEventKind, SandboxStartKind, SandboxState, TimelineOutcome,
};

/// Where a sandbox is in its life.
pub fn state(value: i32) -> String {
    word("SANDBOX_STATE_", SandboxState::try_from(value).ok().map(|value| value.as_str_name()))
}

/// Why a sandbox ended.
pub fn end_reason(value: i32) -> String {
    word("SANDBOX_END_REASON_", SandboxEndReason::try_from(value).ok().map(|value| value.as_str_name()))
}

/// Where a machine came from.
pub fn start(value: i32) -> String {
    word("SANDBOX_START_KIND_", SandboxStartKind::try_from(value).ok().map(|value| value.as_str_name()))
}

/// What happened to a sandbox.
pub fn event(value: i32) -> String {
    word("SANDBOX_EVENT_KIND_", SandboxEventKind::try_from(value).ok().map(|value| value.as_str_name()))
}

/// What happens to a sandbox whose time to live is over.
pub fn on_timeout(value: i32) -> String {
    word("ON_TIMEOUT_", OnTimeout::try_from(value).ok().map(|value| value.as_str_name()))
}

/// What a context speaks.
pub fn code_language(value: i32) -> String {
    word("CODE_LANGUAGE_", CodeLanguage::try_from(value).ok().map(|value| value.as_str_name()))
}

/// What a path is.
pub fn file_kind(value: i32) -> String {
    word("FILE_KIND_", FileKind::try_from(value).ok().map(|value| value.as_str_name()))
}

/// What happened to a file.
pub fn file_event(value: i32) -> String {
    word("FILE_EVENT_KIND_", FileEventKind::try_from(value).ok().map(|value| value.as_str_name()))
}

/// What came of a call: `ok`, `exited:1`, `cancelled`, or why it failed.
pub fn outcome(outcome: Option<&TimelineOutcome>) -> String {
    match outcome.and_then(|outcome| outcome.outcome.as_ref()) {
        Some(Came::Done(_)) => "ok".into(),
        Some(Came::Cancelled(_)) => "cancelled".into(),
        Some(Came::Error(value)) => {
            word("ERROR_REASON_", ErrorReason::try_from(*value).ok().map(|value| value.as_str_name()))
        }
        Some(Came::End(value)) => end_reason(*value),
        Some(Came::Execution(ended)) => execution(ended),
        None => "unknown".into(),
    }
}

/// Where a detached execution is: `running`, `exited:1`, or why it was lost.
pub fn job_state(state: Option<&State>) -> String {
    match state {
        Some(State::Running(_)) => "running".into(),
        Some(State::Outcome(ended)) => execution(ended),
        Some(State::Error(value)) => {
            word("ERROR_REASON_", ErrorReason::try_from(*value).ok().map(|value| value.as_str_name()))
        }
        None => "unknown".into(),
    }
}

fn execution(ended: &ExecutionOutcome) -> String {
    match &ended.outcome {
        Some(Outcome::ExitCode(code)) => format!("exited:{code}"),
        Some(Outcome::Signal(signal)) => format!("signaled:{signal}"),
        Some(Outcome::TimedOut(_)) => "timed_out".into(),
        Some(Outcome::OutOfMemory(_)) => "out_of_memory".into(),
        Some(Outcome::Cancelled(_)) => "cancelled".into(),
        None => "unknown".into(),
    }
}

fn word(prefix: &str, name: Option<&str>) -> String {
    match name.and_then(|name| name.strip_prefix(prefix)) {
        None | Some("UNSPECIFIED") => "unknown".into(),
        Some(name) => name.to_ascii_lowercase(),
    }
}

#[cfg(test)]
mod tests {
    //! Names as they are shown.

    use super::*;

    #[test]
    fn enums_are_words() {
        assert_eq!(state(SandboxState::Running as i32), "running");
        assert_eq!(end_reason(SandboxEndReason::OutOfMemory as i32), "out_of_memory");
        assert_eq!(start(SandboxStartKind::Parked as i32), "parked");
        assert_eq!(event(SandboxEventKind::TimeoutChanged as i32), "timeout_changed");
        assert_eq!(file_kind(FileKind::Symlink as i32), "symlink");
        assert_eq!(state(0), "unknown");
        assert_eq!(state(99), "unknown", "a newer server's word");
    }

    #[test]
    fn what_came_of_a_call_is_a_word() {
        let came = |came: Came| outcome(Some(&TimelineOutcome { outcome: Some(came) }));
        assert_eq!(came(Came::Error(ErrorReason::NotFound.into())), "not_found");
        assert_eq!(came(Came::End(SandboxEndReason::VmLost.into())), "vm_lost");
        let ended = ExecutionOutcome { outcome: Some(Outcome::ExitCode(3)) };
        assert_eq!(came(Came::Execution(ended)), "exited:3");
        assert_eq!(job_state(Some(&State::Outcome(ended))), "exited:3");
        assert_eq!(job_state(Some(&State::Running(Default::default()))), "running");
        assert_eq!(job_state(Some(&State::Error(ErrorReason::VmLost.into()))), "vm_lost");
        assert_eq!(outcome(None), "unknown");
    }
}
