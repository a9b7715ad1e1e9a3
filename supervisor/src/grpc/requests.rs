//! A caller's words, checked and put into the service's.

use std::time::Duration;

use bytes::Bytes;
use rekindle_api::v1;

use crate::agent::{Code, Command, GuestPath, Language, Program, TerminalSize};
use crate::service::{CreateSpec, ExecuteSpec, ServiceError};

/// The largest terminal anyone has.
const MAX_TERMINAL: u32 = 10_000;

fn invalid(what: impl Into<std::borrow::Cow<'static, str>>) -> ServiceError {
    ServiceError::Invalid { what: what.into() }
}

/// A duration, of which zero means unset.
pub(super) fn duration(millis: u64) -> Option<Duration> {
    (millis != 0).then(|| Duration::from_millis(millis))
}

/// What to create.
pub(super) fn create(request: v1::CreateRequest) -> Result<CreateSpec, ServiceError> {
    let limits = request.limits.unwrap_or_default();
    let template = match request.template.as_str() {
        "" => None,
        name => Some(name.parse().map_err(|_| invalid("this is no name of a template"))?),
    };
    Ok(CreateSpec {
        template,
        cpu_millis: limits.cpu_millis,
        memory_bytes: limits.memory_bytes,
        pids: limits.pids,
        env: request.env.into_iter().collect(),
        ttl: duration(request.ttl_millis),
        idle_timeout: duration(request.idle_timeout_millis),
        metadata: request.metadata.into_iter().collect(),
        queue: duration(request.queue_millis),
    })
}

/// What to run: the sandbox, the program, its standard input and its idempotency key.
pub(super) fn execute(
    request: v1::ExecuteRequest,
) -> Result<(String, ExecuteSpec, Bytes, String), ServiceError> {
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
    let spec = ExecuteSpec {
        program,
        plain_interpreter,
        env: request.env.into_iter().collect(),
        cwd: request.cwd,
        timeout: duration(request.timeout_millis),
        memory_bytes: request.memory_bytes,
        output_limit: request.output_limit,
    };
    Ok((request.sandbox, spec, request.stdin, request.idempotency_key))
}

/// The size of a terminal.
pub(super) fn terminal(size: v1::TerminalSize) -> Result<TerminalSize, ServiceError> {
    let right = |number: u32| (1..=MAX_TERMINAL).contains(&number);
    if !right(size.rows) || !right(size.columns) {
        return Err(invalid(format!("a terminal has 1 to {MAX_TERMINAL} rows and columns")));
    }
    Ok(TerminalSize { rows: size.rows, cols: size.columns })
}

/// A path in a sandbox.
pub(super) fn path(bytes: Bytes) -> Result<GuestPath, ServiceError> {
    GuestPath::new(bytes).map_err(|error| invalid(error.to_string()))
}
