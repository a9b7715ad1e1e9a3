//! Starts a program and attaches to it, or attaches to one that runs.

use std::time::Duration;

use axum::body::Body;
use axum::http::Response;
use bytes::Bytes;

use super::events::events;
use super::messages::{ProcessConfig, ProcessRequest, StartRequest};
use super::selected;
use crate::agent::{AgentError, Command, ExecutionClock, Program, Refusal};
use crate::http::connect::{self, ConnectError, Messages};
use crate::http::envd::keepalive::keepalive;
use crate::http::envd::rpc::{Asked, Rpc};
use crate::http::envd::trouble::Trouble;
use crate::http::front::Call;
use crate::service::{Attachment, DetachedSpec, ErrorKind, ExecuteSpec, Input, ServiceError};

/// Starts a program. Its caller's time is the program's: it is killed when that is over.
pub(super) async fn start(rpc: Rpc<'_>) -> Response<Body> {
    let Rpc { service, sandbox, call, parts, body } = rpc;
    let starting = async {
        let within = connect::timeout(&parts.headers)?;
        let asked =
            Asked { service, caller: &call.caller, sandbox: &sandbox, headers: &parts.headers, within };
        let request: StartRequest = Messages::of(&parts, body)?.only().await?;
        start_program(&asked, request).await
    };
    match starting.await {
        Ok(attached) => told(call, attached, keepalive(&parts.headers), None),
        Err(trouble) => Rpc::failed(&sandbox, call, trouble),
    }
}

/// Attaches to a program, from now on.
pub(super) async fn connect(rpc: Rpc<'_>) -> Response<Body> {
    let Rpc { service, sandbox, call, parts, body } = rpc;
    let attaching = async {
        let within = connect::timeout(&parts.headers)?;
        let asked =
            Asked { service, caller: &call.caller, sandbox: &sandbox, headers: &parts.headers, within };
        let request: ProcessRequest = Messages::of(&parts, body)?.only().await?;
        let execution = selected(&asked, request.process)?.to_string();
        let attached = service.attach(asked.caller, asked.sandbox, &execution, true)?;
        Ok::<_, Trouble>((attached.held(), within))
    };
    match attaching.await {
        Ok((attached, within)) => told(call, attached, keepalive(&parts.headers), within),
        Err(trouble) => Rpc::failed(&sandbox, call, trouble),
    }
}

fn told(
    mut call: Call,
    attached: Attachment,
    keepalive: Duration,
    within: Option<Duration>,
) -> Response<Body> {
    let standing = call.standing.take();
    let Call { record, caller, .. } = call;
    let revoked = std::sync::Arc::clone(record.revoked());
    let answer = connect::stream(events(attached, record, keepalive, within));
    drop(caller);
    crate::http::front::revocable(answer, standing, revoked)
}

async fn start_program(asked: &Asked<'_>, request: StartRequest) -> Result<Attachment, Trouble> {
    let user = asked.user()?;
    let StartRequest { process, pty, tag, stdin } = request;
    let Some(ProcessConfig { cmd, args, envs, cwd }) = process else {
        return Err(ConnectError::invalid("a process is needed").into());
    };
    if cmd.is_empty() {
        return Err(ConnectError::invalid("a command is needed").into());
    }
    let directory = user.path(cwd.as_deref().unwrap_or_default())?;
    let terminal = pty.map(|pty| pty.size()).transpose()?;
    let argv = [cmd].into_iter().chain(args).map(Bytes::from).collect();
    let program = ExecuteSpec {
        program: Program::Command(Command { argv }),
        user: user.user,
        plain_interpreter: false,
        env: envs,
        cwd: String::from_utf8_lossy(directory.path.as_bytes()).into_owned(),
        // Where a sandbox cannot live so long, its own end comes first.
        timeout: asked.within.filter(|within| *within <= asked.service.config().max_ttl),
        memory_bytes: 0,
        output_limit: None,
        clock: ExecutionClock::default(),
    };
    let live = terminal.is_some() || stdin.unwrap_or(true);
    let input = if live { Input::Live } else { Input::None };
    let spec = DetachedSpec { program, input, terminal, tag, hidden: false };
    match asked.service.start_attached(asked.caller, asked.sandbox, spec).await {
        Ok(attached) => Ok(attached),
        Err(ServiceError::Agent(AgentError::Refused { kind: Refusal::NotFound, message, .. })) => {
            // Of the directory or of the program: only a look tells.
            let found = asked.service.stat_target(asked.caller, asked.sandbox, &directory).await;
            Err(match (found, cwd) {
                (Err(error), Some(cwd)) if error.kind() == ErrorKind::NotFound => {
                    ConnectError::invalid(format!("cwd '{cwd}' does not exist")).into()
                }
                _ => ConnectError::invalid(message).into(),
            })
        }
        Err(error) => Err(error.into()),
    }
}
