//! Reaches a program from beside its output: signals, and the size of its terminal.

use super::messages::{Nothing, SendSignalRequest, Signal, UpdateRequest};
use super::selected;
use crate::http::connect::ConnectError;
use crate::http::envd::rpc::Asked;
use crate::http::envd::trouble::Trouble;

const KILL: u32 = 9;
const TERMINATE: u32 = 15;

/// Sends a signal. To kill means everything the program started.
pub(super) async fn signal(asked: Asked<'_>, request: SendSignalRequest) -> Result<Nothing, Trouble> {
    let execution = selected(&asked, request.process)?.to_string();
    let signal = match request.signal {
        Some(Signal::Name(name)) if name == "SIGNAL_SIGKILL" => KILL,
        Some(Signal::Name(name)) if name == "SIGNAL_SIGTERM" => TERMINATE,
        Some(Signal::Number(number @ (KILL | TERMINATE))) => number,
        _ => return Err(ConnectError::invalid("the signal is SIGNAL_SIGKILL or SIGNAL_SIGTERM").into()),
    };
    let everyone = signal == KILL;
    asked.service.signal_detached(asked.caller, asked.sandbox, &execution, signal, everyone).await?;
    Ok(Nothing {})
}

/// Changes the size of the terminal.
pub(super) async fn update(asked: Asked<'_>, request: UpdateRequest) -> Result<Nothing, Trouble> {
    let execution = selected(&asked, request.process)?.to_string();
    let Some(pty) = request.pty else { return Ok(Nothing {}) };
    asked.service.resize_detached(asked.caller, asked.sandbox, &execution, pty.size()?).await?;
    Ok(Nothing {})
}
