//! How a program ended, in the words of Go's `os.ProcessState`, which is what the SDKs know.

use std::borrow::Cow;

use super::messages::End;
use crate::agent::Outcome;
use crate::http::connect::{Code, ConnectError};

/// The end of a program; one that ran into its time limit has none but an error.
pub(super) fn end(outcome: Outcome) -> Result<End, ConnectError> {
    let killed =
        |status: String, error: String| End { exit_code: -1, exited: false, status, error: Some(error) };
    match outcome {
        Outcome::Exited(code) => {
            let status = format!("exit status {code}");
            let error = (code != 0).then(|| status.clone());
            Ok(End { exit_code: code.into(), exited: true, status, error })
        }
        Outcome::Signaled(signal) => {
            let status = format!("signal: {}", signal_name(signal));
            Ok(killed(status.clone(), status))
        }
        Outcome::OutOfMemory => Ok(killed("signal: killed".into(), "signal: killed: out of memory".into())),
        Outcome::Cancelled => Ok(killed("signal: killed".into(), "signal: killed".into())),
        Outcome::TimedOut => {
            Err(ConnectError::new(Code::DeadlineExceeded, "the program ran into its timeout and was killed"))
        }
    }
}

fn signal_name(signal: u8) -> Cow<'static, str> {
    let name = match signal {
        1 => "hangup",
        2 => "interrupt",
        3 => "quit",
        4 => "illegal instruction",
        5 => "trace/breakpoint trap",
        6 => "aborted",
        7 => "bus error",
        8 => "floating point exception",
        9 => "killed",
        10 => "user defined signal 1",
        11 => "segmentation fault",
        12 => "user defined signal 2",
        13 => "broken pipe",
        14 => "alarm clock",
        15 => "terminated",
        other => return format!("signal {other}").into(),
    };
    name.into()
}

#[cfg(test)]
mod tests {
    //! Ends of all kinds.

    use super::*;

    fn json(outcome: Outcome) -> String {
        serde_json::to_string(&end(outcome).expect("an end")).expect("a message")
    }

    #[test]
    fn an_end_is_told_as_the_sdks_read_it() {
        assert_eq!(json(Outcome::Exited(0)), r#"{"exited":true,"status":"exit status 0"}"#);
        assert_eq!(
            json(Outcome::Exited(3)),
            r#"{"exitCode":3,"exited":true,"status":"exit status 3","error":"exit status 3"}"#
        );
        assert_eq!(
            json(Outcome::Signaled(9)),
            r#"{"exitCode":-1,"status":"signal: killed","error":"signal: killed"}"#
        );
        assert!(json(Outcome::Signaled(15)).contains("signal: terminated"));
        assert!(json(Outcome::Signaled(34)).contains("signal: signal 34"));
        assert!(json(Outcome::OutOfMemory).contains("out of memory"));
        let late = end(Outcome::TimedOut).expect_err("an error");
        assert_eq!(late.code, Code::DeadlineExceeded);
    }
}
