//! What a caller wants to run, checked and put into the agent's words.

use std::collections::BTreeMap;
use std::time::Duration;

use bytes::Bytes;
use rekindle_protocol::limits::{MAX_PATH_BYTES, MAX_STDIN_BYTES, MIN_OUTPUT_LIMIT};

use super::config::ServiceConfig;
use super::error::ServiceError;
use crate::agent::{EnvVar, ExecuteRequest, ExecutionClock, GuestUser, Program, Stdin, TerminalSize};

/// Bounds on a caller's variables.
const MAX_VARIABLES: usize = 256;
const MAX_ENVIRONMENT: usize = 128 * 1024;

/// What to run, where and within which limits. `None` and zero mean the server's default.
#[derive(Debug, Clone, PartialEq)]
pub struct ExecuteSpec {
    /// The program.
    pub program: Program,
    /// Who runs it.
    pub user: GuestUser,
    /// Start an interpreter instead of using a warm one.
    pub plain_interpreter: bool,
    /// Variables on top of the sandbox's.
    pub env: BTreeMap<String, String>,
    /// Its working directory; empty means the user's home.
    pub cwd: String,
    /// Its wall-clock limit.
    pub timeout: Option<Duration>,
    /// Its memory.
    pub memory_bytes: u64,
    /// Characters of each stream in the result.
    pub output_limit: Option<u32>,
    /// Its clock.
    pub clock: ExecutionClock,
}

/// Where a program's standard input comes from.
#[derive(Debug, Clone, PartialEq)]
pub enum Input {
    /// Nowhere.
    None,
    /// These bytes.
    Whole(Bytes),
    /// The caller, while it runs.
    Live,
}

impl ExecuteSpec {
    /// The agent's request.
    ///
    /// # Errors
    /// What of it is out of bounds.
    pub fn request(
        &self,
        config: &ServiceConfig,
        input: &Input,
        terminal: Option<TerminalSize>,
        stream: bool,
    ) -> Result<ExecuteRequest, ServiceError> {
        let timeout = self.timeout.unwrap_or(config.execute_timeout);
        self.within(config, input, terminal, stream, Some((timeout, config.max_execute_timeout)))
    }

    /// The agent's request for a detached execution: live, and as long as its sandbox unless it has a time limit.
    pub(super) fn detached_request(
        &self,
        config: &ServiceConfig,
        input: &Input,
        terminal: Option<TerminalSize>,
    ) -> Result<ExecuteRequest, ServiceError> {
        self.within(config, input, terminal, true, self.timeout.map(|timeout| (timeout, config.max_ttl)))
    }

    /// With a time limit and the most that it may be, or without one.
    fn within(
        &self,
        config: &ServiceConfig,
        input: &Input,
        terminal: Option<TerminalSize>,
        stream: bool,
        timeout: Option<(Duration, Duration)>,
    ) -> Result<ExecuteRequest, ServiceError> {
        let millis = |time: Duration| u64::try_from(time.as_millis()).unwrap_or(u64::MAX);
        if let Some((timeout, most)) = timeout {
            ServiceError::bound_time("timeout", timeout, most)?;
            ServiceError::more_than_zero("timeout", timeout)?;
        }
        let output_limit = self.output_limit.unwrap_or(config.output_limit);
        ServiceError::bound("output_limit", output_limit.into(), config.max_output_limit.into())?;
        if (output_limit as usize) < MIN_OUTPUT_LIMIT {
            return Err(ServiceError::invalid(format!("output_limit must be at least {MIN_OUTPUT_LIMIT}")));
        }
        ServiceError::bound("the length of cwd", self.cwd.len() as u64, MAX_PATH_BYTES as u64)?;
        let (stdin, stdin_data) = match input {
            Input::None => (Stdin::Unspecified, Bytes::new()),
            Input::Whole(bytes) if bytes.is_empty() => (Stdin::Unspecified, Bytes::new()),
            Input::Whole(bytes) if bytes.len() <= MAX_STDIN_BYTES => (Stdin::Whole, bytes.clone()),
            Input::Whole(_) | Input::Live => (Stdin::Live, Bytes::new()),
        };
        let (clock_unix_nanos, timezone) = self.clock.to_wire();
        Ok(ExecuteRequest {
            program: Some(self.program.clone()),
            env: environment(&self.env)?,
            cwd: self.cwd.clone().into(),
            user: self.user.to_wire(),
            timeout_millis: timeout.map_or(0, |(timeout, _)| millis(timeout).max(1)),
            stdin: stdin.into(),
            stdin_data,
            terminal,
            stream,
            output_limit,
            memory_bytes: self.memory_bytes,
            plain_interpreter: self.plain_interpreter,
            clock_unix_nanos,
            timezone,
            ..ExecuteRequest::default()
        })
    }

    /// What a timeline says it was.
    pub(super) fn about(&self) -> String {
        match &self.program {
            Program::Command(command) => {
                let words = command.argv.iter().take(4).map(|word| String::from_utf8_lossy(word));
                words.collect::<Vec<_>>().join(" ")
            }
            Program::Shell(line) => line.clone(),
            Program::Code(code) => code.source.clone(),
        }
    }
}

/// Variables in the agent's words.
pub(super) fn environment(env: &BTreeMap<String, String>) -> Result<Vec<EnvVar>, ServiceError> {
    ServiceError::bound("the number of variables", env.len() as u64, MAX_VARIABLES as u64)?;
    let size: usize = env.iter().map(|(name, value)| name.len() + value.len()).sum();
    ServiceError::bound("the size of all variables", size as u64, MAX_ENVIRONMENT as u64)?;
    env.iter()
        .map(|(name, value)| {
            if name.is_empty() || name.contains(['=', '\0']) || value.contains('\0') {
                return Err(ServiceError::invalid("a variable needs a name without `=`, and no NUL bytes"));
            }
            Ok(EnvVar { name: name.clone().into(), value: value.clone().into() })
        })
        .collect()
}
