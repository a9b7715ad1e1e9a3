//! `process.Process`: programs that outlive the calls that start them, by the service's detached executions. One file
//! per verb or pair of them.

mod events;
mod input;
mod list;
mod messages;
mod signal;
mod start;
mod status;

use axum::body::Body;
use axum::http::Response;

use super::rpc::{Asked, Rpc};
use super::trouble::Trouble;
use crate::http::connect::ConnectError;
use crate::service::{ExecutionId, JobSelector};

/// What there is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Method {
    List,
    Start,
    Connect,
    Update,
    StreamInput,
    SendInput,
    SendSignal,
    CloseStdin,
}

/// A method, and the name that audit log and metrics have for it.
pub(super) fn method(name: &str) -> Option<(Method, &'static str)> {
    Some(match name {
        "List" => (Method::List, "Process/List"),
        "Start" => (Method::Start, "Process/Start"),
        "Connect" => (Method::Connect, "Process/Connect"),
        "Update" => (Method::Update, "Process/Update"),
        "StreamInput" => (Method::StreamInput, "Process/StreamInput"),
        "SendInput" => (Method::SendInput, "Process/SendInput"),
        "SendSignal" => (Method::SendSignal, "Process/SendSignal"),
        "CloseStdin" => (Method::CloseStdin, "Process/CloseStdin"),
        _ => return None,
    })
}

pub(super) async fn answer(method: Method, rpc: Rpc<'_>) -> Response<Body> {
    match method {
        Method::List => rpc.unary(list::list).await,
        Method::Start => start::start(rpc).await,
        Method::Connect => start::connect(rpc).await,
        Method::Update => rpc.unary(signal::update).await,
        Method::StreamInput => input::stream(rpc).await,
        Method::SendInput => rpc.unary(input::send).await,
        Method::SendSignal => rpc.unary(signal::signal).await,
        Method::CloseStdin => rpc.unary(input::close).await,
    }
}

/// The program that runs and is meant.
fn selected(asked: &Asked<'_>, process: Option<messages::ProcessSelector>) -> Result<ExecutionId, Trouble> {
    let selector = match process {
        Some(messages::ProcessSelector { pid: Some(pid), tag: None }) => JobSelector::Pid(pid),
        Some(messages::ProcessSelector { pid: None, tag: Some(tag) }) => JobSelector::Tag(tag),
        _ => return Err(ConnectError::invalid("a process is named by its pid or its tag").into()),
    };
    Ok(asked.service.select_detached(asked.caller, asked.sandbox, &selector)?)
}
