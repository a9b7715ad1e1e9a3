//! Describes data that is in a sandbox. A program of our own (`describe/program/`) reads it there, so that nothing large
//! leaves the sandbox and no format is decoded on the host; what it says is the guest's word, and bounded here.

mod answer;

use std::collections::BTreeMap;
use std::time::Duration;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use bytes::Bytes;
use rekindle_protocol::limits::MAX_OUTPUT_LIMIT;
use serde_json::json;

use super::call::Call;
use super::caller::{Caller, Scope};
use super::error::ServiceError;
use super::execute::note_finished;
use super::files::LOOK;
use super::program::{ExecuteSpec, Input};
use super::registry::Service;
use crate::agent::{
    AgentError, Code, ExecutionClock, Finished, GuestPath, GuestUser, Language, Outcome, Program, Refusal,
};

pub use self::answer::Described;

/// The program, from its parts in the order in which they need each other.
const PROGRAM: &str = concat!(
    include_str!("describe/program/head.py"),
    include_str!("describe/program/columns.py"),
    include_str!("describe/program/words.py"),
    include_str!("describe/program/json_text.py"),
    include_str!("describe/program/lines.py"),
    include_str!("describe/program/parquet.py"),
    include_str!("describe/program/arrow.py"),
    include_str!("describe/program/tables.py"),
    include_str!("describe/program/loader.py"),
    include_str!("describe/program/main.py"),
);

/// Paths of one call.
const MAX_PATHS: u64 = 16;
/// Characters of the text.
const CHARS: u32 = 4_000;
const MIN_CHARS: u32 = 200;
const MAX_CHARS: u32 = 20_000;
/// How long it takes at most, unless the caller says.
const TIME: Duration = Duration::from_secs(120);

/// What to describe.
#[derive(Debug, Clone)]
pub struct DescribeSpec {
    /// The files and directories.
    pub paths: Vec<GuestPath>,
    /// Whose they are.
    pub user: GuestUser,
    /// Most characters of the text; 0 means the default.
    pub max_chars: u32,
    /// Where a program that loads them is written.
    pub loader: Option<GuestPath>,
    /// How long it may take.
    pub timeout: Option<Duration>,
}

impl Service {
    /// Describes data in a sandbox. Dropping the future ends the program that does.
    ///
    /// # Errors
    /// See [`ServiceError`].
    pub async fn describe(
        &self,
        caller: &Caller,
        sandbox: &str,
        spec: DescribeSpec,
    ) -> Result<Described, ServiceError> {
        caller.require(Scope::Files)?;
        let sandbox = self.alive(caller, sandbox)?;
        sandbox.check_user(caller, spec.user)?;
        ServiceError::bound("the number of paths", spec.paths.len() as u64, MAX_PATHS)?;
        let Some(first) = spec.paths.first() else {
            return Err(ServiceError::invalid("a path to describe must be given"));
        };
        let max_chars = if spec.max_chars == 0 { CHARS } else { spec.max_chars };
        ServiceError::bound("max_chars", max_chars.into(), MAX_CHARS.into())?;
        if max_chars < MIN_CHARS {
            return Err(ServiceError::invalid(format!("max_chars must be at least {MIN_CHARS}")));
        }
        let timeout = spec.timeout.unwrap_or_else(|| TIME.min(self.config().max_execute_timeout));
        let program = program(spec.user, timeout);
        let input = Input::Whole(asked(&spec, max_chars, timeout));
        let mut request = program.request(self.config(), &input, None, false)?;
        // The operator's limit is one for programs of callers; this one's output is ours to read.
        request.output_limit = u32::try_from(MAX_OUTPUT_LIMIT).unwrap_or(u32::MAX);
        let mut call = Call::begin(self, sandbox, &caller.origin, "describe", &first.to_string())?;
        let ran = async {
            let agent = call.sandbox().agent();
            // The agent says of a path what is wrong with it, in the words that every call has for that.
            for path in &spec.paths {
                call.wait(agent.as_user(spec.user).stat(path, true, LOOK)).await?;
            }
            call.wait(agent.run(request)).await
        };
        let ran = ran.await.map_err(without_python);
        if let Ok(finished) = &ran {
            note_finished(&mut call, finished);
        }
        let described = ran.and_then(|finished| read(&finished, max_chars, timeout));
        call.done(&described);
        described
    }
}

/// The program as an execution.
fn program(user: GuestUser, timeout: Duration) -> ExecuteSpec {
    ExecuteSpec {
        program: Program::Code(Code { language: Language::Python.into(), source: PROGRAM.to_owned() }),
        user,
        plain_interpreter: false,
        env: BTreeMap::new(),
        cwd: String::new(),
        timeout: Some(timeout),
        memory_bytes: 0,
        output_limit: None,
        clock: ExecutionClock::default(),
    }
}

/// What it is asked. Paths are bytes, so they travel as such.
fn asked(spec: &DescribeSpec, max_chars: u32, timeout: Duration) -> Bytes {
    let encode = |path: &GuestPath| STANDARD.encode(path.as_bytes());
    let paths: Vec<String> = spec.paths.iter().map(encode).collect();
    // It ends by itself before it is ended, and says what it has seen until then.
    let seconds = (timeout.as_secs_f64() * 0.8).max(0.1);
    json!({
        "paths": paths,
        "max_chars": max_chars,
        "seconds": seconds,
        "loader": spec.loader.as_ref().map(encode),
    })
    .to_string()
    .into()
}

/// A template need not have a Python.
fn without_python(error: ServiceError) -> ServiceError {
    match error {
        ServiceError::Agent(AgentError::Refused { kind: Refusal::SpawnFailed, .. }) => {
            ServiceError::NotDescribed("the sandbox has no python3, which reads the data".into())
        }
        other => other,
    }
}

fn read(finished: &Finished, max_chars: u32, timeout: Duration) -> Result<Described, ServiceError> {
    let why = match finished.outcome {
        Outcome::Exited(0) => {
            return Described::read(&finished.stdout, max_chars as usize)
                .map_err(|why| ServiceError::NotDescribed(why.into()));
        }
        Outcome::TimedOut => return Err(ServiceError::Deadline { after: timeout }),
        Outcome::OutOfMemory => "the sandbox's memory is too small or too full".into(),
        // Its last line is the reason, if it is our program's; it is the guest's word in any case.
        Outcome::Exited(_) => answer::last_line(&finished.stderr.text).into(),
        Outcome::Signaled(_) | Outcome::Cancelled => "the program that reads the data was ended".into(),
    };
    Err(ServiceError::NotDescribed(why))
}

#[cfg(test)]
mod tests;
