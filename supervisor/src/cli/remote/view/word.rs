//! The API's enums as words. A value this version does not know is `unknown`.

use rekindle_api::v1::{EndReason, EventKind, FileKind, SandboxState, StartKind};

/// Where a sandbox is in its life.
pub fn state(value: i32) -> String {
    word("SANDBOX_STATE_", SandboxState::try_from(value).ok().map(|value| value.as_str_name()))
}

/// Why a sandbox ended.
pub fn end_reason(value: i32) -> String {
    word("END_REASON_", EndReason::try_from(value).ok().map(|value| value.as_str_name()))
}

/// Where a machine came from.
pub fn start(value: i32) -> String {
    word("START_KIND_", StartKind::try_from(value).ok().map(|value| value.as_str_name()))
}

/// What happened to a sandbox.
pub fn event(value: i32) -> String {
    word("EVENT_KIND_", EventKind::try_from(value).ok().map(|value| value.as_str_name()))
}

/// What a path is.
pub fn file_kind(value: i32) -> String {
    word("FILE_KIND_", FileKind::try_from(value).ok().map(|value| value.as_str_name()))
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
        assert_eq!(end_reason(EndReason::OutOfMemory as i32), "out_of_memory");
        assert_eq!(start(StartKind::Parked as i32), "parked");
        assert_eq!(event(EventKind::TimeoutChanged as i32), "timeout_changed");
        assert_eq!(file_kind(FileKind::Symlink as i32), "symlink");
        assert_eq!(state(0), "unknown");
        assert_eq!(state(99), "unknown", "a newer server's word");
    }
}
