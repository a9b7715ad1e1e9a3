//! A connection to the outside.

use rekindle_api::v1::{self, connection::State};
use serde::Serialize;

use super::{moment, seconds};

/// A connection.
#[derive(Debug, Serialize)]
pub struct Connection {
    number: u64,
    #[serde(skip_serializing_if = "String::is_empty")]
    execution: String,
    #[serde(skip_serializing_if = "String::is_empty")]
    trace: String,
    #[serde(skip_serializing_if = "String::is_empty")]
    step: String,
    host: String,
    port: u32,
    policy: String,
    started_at: Option<String>,
    duration: Option<String>,
    bytes_up: u64,
    bytes_down: u64,
    state: &'static str,
    #[serde(skip_serializing_if = "String::is_empty")]
    rule: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    denial: Option<Denial>,
    #[serde(skip_serializing_if = "Option::is_none")]
    failure: Option<String>,
}

/// Why it was not let through.
#[derive(Debug, Serialize)]
pub struct Denial {
    reason: String,
    message: String,
    host: String,
    port: u32,
    #[serde(skip_serializing_if = "String::is_empty")]
    rule: String,
}

impl From<v1::NetworkDenial> for Denial {
    fn from(from: v1::NetworkDenial) -> Self {
        let v1::NetworkDenial { reason, message, host, port, rule } = from;
        Self { reason, message, host, port, rule }
    }
}

impl From<v1::Connection> for Connection {
    fn from(from: v1::Connection) -> Self {
        let state = connection_state(from.state.as_ref());
        let (mut rule, mut denial, mut failure) = (String::new(), None, None);
        match from.state {
            Some(State::Open(open)) => rule = open.rule,
            Some(State::Closed(closed)) => (rule, denial) = (closed.rule, closed.denial.map(Denial::from)),
            Some(State::Denied(denied)) => denial = Some(denied.into()),
            Some(State::Failed(failed)) => failure = Some(failed.message),
            None => {}
        }
        Self {
            number: from.number,
            execution: from.execution,
            trace: from.trace,
            step: from.step,
            host: from.host,
            port: from.port,
            policy: from.policy,
            started_at: moment(from.started_at),
            duration: seconds(from.duration),
            bytes_up: from.bytes_up,
            bytes_down: from.bytes_down,
            state,
            rule,
            denial,
            failure,
        }
    }
}

/// What became of it, in a word.
pub fn connection_state(state: Option<&State>) -> &'static str {
    match state {
        Some(State::Open(_)) => "open",
        Some(State::Closed(closed)) if closed.denial.is_some() => "cut",
        Some(State::Closed(_)) => "closed",
        Some(State::Denied(_)) => "denied",
        Some(State::Failed(_)) => "failed",
        None => "unknown",
    }
}
