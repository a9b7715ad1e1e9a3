//! Writes to the standard input or the terminal of a program, and ends it.

use axum::body::Body;
use axum::http::Response;
use bytes::Bytes;
use futures::stream::once;
use std::future::ready;

use super::messages::{Nothing, ProcessInput, ProcessRequest, SendInputRequest, StreamInputRequest};
use super::selected;
use crate::http::connect::{self, ConnectError, Messages};
use crate::http::envd::rpc::{Asked, Rpc};
use crate::http::envd::trouble::Trouble;
use crate::service::ExecutionId;

/// Writes once. Clients give a shell that they have just started a fixed time from the answer on, so that a fresh
/// terminal has somebody who reads before it is typed on.
pub(super) async fn send(asked: Asked<'_>, request: SendInputRequest) -> Result<Nothing, Trouble> {
    let execution = selected(&asked, request.process)?;
    let data = data(request.input)?;
    asked.service.until_terminal_speaks(asked.caller, asked.sandbox, &execution.to_string()).await?;
    write(&asked, execution, data, false).await?;
    Ok(Nothing {})
}

/// Ends the input.
pub(super) async fn close(asked: Asked<'_>, request: ProcessRequest) -> Result<Nothing, Trouble> {
    let execution = selected(&asked, request.process)?;
    write(&asked, execution, Bytes::new(), true).await?;
    Ok(Nothing {})
}

/// Writes as long as the caller sends. The end of what it sends is not the end of the input.
pub(super) async fn stream(rpc: Rpc<'_>) -> Response<Body> {
    let Rpc { service, sandbox, mut call, parts, body } = rpc;
    let standing = call.standing.take();
    let writing = async {
        let within = connect::timeout(&parts.headers)?;
        let asked =
            Asked { service, caller: &call.caller, sandbox: &sandbox, headers: &parts.headers, within };
        let mut messages = Messages::of(&parts, body)?;
        let first: Option<StreamInputRequest> = messages.next().await?;
        let Some(StreamInputRequest { start: Some(start), .. }) = first else {
            return Err(ConnectError::invalid("the first message names the process").into());
        };
        let execution = selected(&asked, start.process)?;
        while let Some(message) = messages.next::<StreamInputRequest>().await? {
            match message {
                StreamInputRequest { data: Some(piece), .. } => {
                    write(&asked, execution, data(piece.input)?, false).await?;
                }
                StreamInputRequest { keepalive: Some(_), .. } => {}
                _ => return Err(ConnectError::invalid("a message without input").into()),
            }
        }
        Ok::<(), Trouble>(())
    };
    let lost = async {
        match standing {
            Some(standing) => standing.lost().await,
            None => std::future::pending().await,
        }
    };
    let done = tokio::select! {
        done = writing => done,
        () = lost => {
            call.record.revoked().store(true, std::sync::atomic::Ordering::Release);
            let lost = ConnectError::new(connect::Code::Unauthenticated, "the token is no longer in force");
            return connect::failed(&lost);
        }
    };
    match done {
        Ok(()) => {
            call.record.settle(&Ok(()), "ok");
            connect::stream(once(ready(Ok(Nothing {}))))
        }
        Err(trouble) => Rpc::failed(&sandbox, call, trouble),
    }
}

fn data(input: Option<ProcessInput>) -> Result<Bytes, Trouble> {
    match input {
        Some(
            ProcessInput { stdin: Some(data), pty: None } | ProcessInput { stdin: None, pty: Some(data) },
        ) => Ok(data),
        _ => Err(ConnectError::invalid("input is for stdin or for the terminal").into()),
    }
}

async fn write(asked: &Asked<'_>, execution: ExecutionId, data: Bytes, end: bool) -> Result<(), Trouble> {
    let execution = execution.to_string();
    Ok(asked.service.send_input(asked.caller, asked.sandbox, &execution, data, end).await?)
}
