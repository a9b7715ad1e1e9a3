//! A caller's words, checked and put into the service's.

use std::collections::BTreeMap;
use std::time::Duration;

use bytes::Bytes;
use rekindle_api::time::{from_duration, from_timestamp};
use rekindle_api::v1;

use crate::agent::{
    Code, Command, ExecutionClock, FileMetadata, GuestPath, GuestUser, InvalidClock, Language, Program,
    TerminalSize, UserPath,
};
use crate::service::{AtTimeout, CreateSpec, DescribeSpec, ExecuteSpec, ServiceError};

/// The largest terminal anyone has.
const MAX_TERMINAL: u32 = 10_000;

fn invalid(what: impl Into<std::borrow::Cow<'static, str>>) -> ServiceError {
    ServiceError::Invalid { what: what.into() }
}

/// A time that a caller has set or not.
pub(super) fn time(
    name: &'static str,
    time: Option<rekindle_api::Duration>,
) -> Result<Option<Duration>, ServiceError> {
    let checked = |time| from_duration(time).ok_or_else(|| invalid(format!("{name} is no duration")));
    time.map(checked).transpose()
}

/// What to create, and its request id.
pub(super) fn create(request: v1::CreateSandboxRequest) -> Result<(CreateSpec, String), ServiceError> {
    let limits = request.limits.unwrap_or_default();
    let template = match request.template.as_str() {
        "" => None,
        name => Some(name.parse().map_err(|_| invalid("this is no name of a template"))?),
    };
    let spec = CreateSpec {
        template,
        milli_cpus: limits.milli_cpus,
        memory_bytes: limits.memory_bytes,
        pids: limits.pids,
        env: request.env,
        ttl: time("ttl", request.ttl)?,
        idle_timeout: time("idle_timeout", request.idle_timeout)?,
        metadata: request.metadata,
        queue: time("queue_timeout", request.queue_timeout)?,
        network: request.network,
        at_timeout: on_timeout(request.on_timeout)?.unwrap_or_default(),
        gateway: request.gateway,
        gateway_budget: request.gateway_budget,
        public_ports: false,
        host_mask: None,
        max_turns: request.max_turns,
        result_path: request.result_path,
    };
    Ok((spec, request.request_id))
}

/// What happens when a sandbox's time to live is over; nothing where a caller does not say.
pub(super) fn on_timeout(number: i32) -> Result<Option<AtTimeout>, ServiceError> {
    match v1::OnTimeout::try_from(number) {
        Ok(v1::OnTimeout::Unspecified) => Ok(None),
        Ok(v1::OnTimeout::Destroy) => Ok(Some(AtTimeout::End)),
        Ok(v1::OnTimeout::Pause) => Ok(Some(AtTimeout::Pause { auto_resume: false })),
        Ok(v1::OnTimeout::PauseUntilUsed) => Ok(Some(AtTimeout::Pause { auto_resume: true })),
        Ok(v1::OnTimeout::PauseWithoutMemory) => Ok(Some(AtTimeout::PauseWithoutMemory)),
        Err(_) => Err(invalid("on_timeout is none of the things that can happen")),
    }
}

/// What to run: the sandbox, the program, its standard input and its idempotency key.
pub(super) fn execute(
    mut request: v1::ExecuteRequest,
) -> Result<(String, ExecuteSpec, Bytes, String), ServiceError> {
    let sandbox = std::mem::take(&mut request.sandbox);
    let (stdin, key) = (std::mem::take(&mut request.stdin), std::mem::take(&mut request.idempotency_key));
    Ok((sandbox, execute_spec(request)?, stdin, key))
}

/// The program that a request has.
///
/// # Errors
/// What of it is no program, user, time limit or clock.
pub fn execute_spec(request: v1::ExecuteRequest) -> Result<ExecuteSpec, ServiceError> {
    use v1::program::Program as Api;
    let mut plain_interpreter = false;
    let program = match request.program.and_then(|program| program.program) {
        Some(Api::Command(command)) if command.argv.is_empty() => return Err(invalid("argv is empty")),
        Some(Api::Command(command)) => {
            Program::Command(Command { argv: command.argv.into_iter().map(Bytes::from).collect() })
        }
        Some(Api::Shell(line)) => Program::Shell(line),
        Some(Api::Code(code)) => {
            let language = match code.language() {
                v1::Language::Python => Language::Python,
                v1::Language::Node => Language::Node,
                v1::Language::Bash => Language::Bash,
                v1::Language::Unspecified => return Err(invalid("code needs a language")),
            };
            plain_interpreter = code.plain_interpreter;
            Program::Code(Code { language: language.into(), source: code.source })
        }
        None => return Err(invalid("a program is needed: command, shell or code")),
    };
    let now = request.now.map(|now| from_timestamp(now).ok_or(InvalidClock::Moment)).transpose()?;
    Ok(ExecuteSpec {
        program,
        user: user(&request.user)?,
        plain_interpreter,
        env: request.env,
        cwd: request.cwd,
        timeout: time("timeout", request.timeout)?,
        memory_bytes: request.memory_bytes,
        output_limit: request.output_limit,
        clock: ExecutionClock::new(now, &request.timezone)?,
    })
}

/// The size of a terminal.
pub(super) fn terminal(size: v1::TerminalSize) -> Result<TerminalSize, ServiceError> {
    let right = |number: u32| (1..=MAX_TERMINAL).contains(&number);
    if !right(size.rows) || !right(size.columns) {
        return Err(invalid(format!("a terminal has 1 to {MAX_TERMINAL} rows and columns")));
    }
    Ok(TerminalSize { rows: size.rows, cols: size.columns })
}

/// A path in a sandbox, as one of its users has it.
pub(super) fn path(bytes: Bytes, user_name: &str) -> Result<UserPath, ServiceError> {
    let path = GuestPath::new(bytes).map_err(|error| invalid(error.to_string()))?;
    Ok(UserPath { user: user(user_name)?, path })
}

/// What to describe.
pub(super) fn describe(request: v1::DescribeFilesRequest) -> Result<DescribeSpec, ServiceError> {
    let checked = |path: Bytes| GuestPath::new(path).map_err(|error| invalid(error.to_string()));
    Ok(DescribeSpec {
        paths: request.paths.into_iter().map(checked).collect::<Result<_, _>>()?,
        user: user(&request.user)?,
        max_chars: request.max_chars,
        loader: Some(request.loader).filter(|path| !path.is_empty()).map(checked).transpose()?,
        timeout: time("timeout", request.timeout)?,
    })
}

/// A user of a sandbox.
fn user(name: &str) -> Result<GuestUser, ServiceError> {
    GuestUser::named(name).map_err(|unknown| invalid(unknown.to_string()))
}

/// What is to be noted at a file.
pub(super) fn metadata(pairs: BTreeMap<String, String>) -> Result<FileMetadata, ServiceError> {
    FileMetadata::new(pairs).map_err(|error| invalid(error.to_string()))
}
