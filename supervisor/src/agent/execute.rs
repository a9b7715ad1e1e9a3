//! Runs one program in a guest.
//!
//! ```text
//!   execute ──► Started ──► next: Output, Output, … ──► next: Finished ──► next: nothing
//!                  │                                        ▲
//!                  └── dropped: reset, everything it started is killed
//!
//!   run ──► Finished
//! ```

use rekindle_protocol::limits::{MAX_CHUNK_BYTES, MAX_OUTPUT_LIMIT, MIN_OUTPUT_LIMIT};
use rekindle_protocol::wire::{self, ExecuteRequest, Stdin, request::Op, response::Reply};
use std::time::Duration;

use bytes::Bytes;
use tokio::time::Instant;

use super::client::{AgentClient, Lane};
use super::error::AgentError;
use super::finished::{Finished, OutputStream, effective_limit};
use super::operation::Operation;
use super::path::GuestPath;
use super::patience::{ExecutePatience, Overdue, deadline};
use super::stdin::{self, Pump, StdinWriter};

/// The operation's name in errors.
const EXECUTE: &str = "execute";
/// The minor protocol version from which on an agent heeds the clock of an execution.
const CLOCK_SINCE: u32 = 10;

/// What is wrong with an answer that has one.
const IMPOSSIBLE_PATH: &str = "output kept at an impossible path";

/// Bytes of output that may arrive after the time limit and its grace: more than lies in all buffers between a program
/// and its caller. A caller that reads late gets them; an agent that lets its program go on is found out.
const MAX_LATE_BYTES: usize = 8 << 20;
/// What each piece of it counts besides its bytes.
const LATE_PIECE: usize = 16;

/// A program that was started.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Started {
    /// Names the execution in `signal` and `resize`.
    pub execution: u64,
    /// Its process id inside the guest.
    pub pid: u32,
    /// Where its output is spilled while it runs.
    pub spilled: SpillPaths,
}

/// Where the exact bytes of a program's output are in its guest.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct SpillPaths {
    /// Of standard output, or of the terminal; `None` when they are nowhere.
    pub stdout: Option<GuestPath>,
    /// Of standard error.
    pub stderr: Option<GuestPath>,
}

impl Started {
    fn from_wire(started: &wire::Started) -> Result<Self, &'static str> {
        if started.execution == 0 || started.pid == 0 {
            return Err("a program that nothing names");
        }
        let path = |path: &Bytes| match path.is_empty() {
            true => Ok(None),
            false if !path.starts_with(b"/") => Err(IMPOSSIBLE_PATH),
            false => GuestPath::told(path).map(Some).map_err(|_| IMPOSSIBLE_PATH),
        };
        let spilled = SpillPaths { stdout: path(&started.stdout_path)?, stderr: path(&started.stderr_path)? };
        Ok(Self { execution: started.execution, pid: started.pid, spilled })
    }
}

/// Something that happened in an execution.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Event {
    /// The program wrote; only when the request asked for `stream`.
    Output {
        /// Where to.
        stream: OutputStream,
        /// The bytes, at most 256 KiB.
        data: Bytes,
    },
    /// The program ended. Nothing follows.
    Finished(Box<Finished>),
}

/// A running program. Dropping it kills everything it started.
#[derive(Debug)]
pub struct Execution {
    started: Started,
    operation: Operation,
    stdin: Option<StdinWriter>,
    _pump: Option<Pump>,
    streaming: bool,
    output_limit: usize,
    /// `None` without a time limit.
    overdue: Option<Overdue>,
    /// Output that came after that.
    late: usize,
    over: bool,
}

impl AgentClient {
    /// Starts a program with the usual patience.
    ///
    /// # Errors
    /// See [`AgentError`].
    pub async fn execute(&self, request: ExecuteRequest) -> Result<Execution, AgentError> {
        self.execute_with(request, ExecutePatience::default()).await
    }

    /// Starts a program.
    ///
    /// # Errors
    /// See [`AgentError`].
    pub async fn execute_with(
        &self,
        request: ExecuteRequest,
        patience: ExecutePatience,
    ) -> Result<Execution, AgentError> {
        self.heeds_clock(&request)?;
        let output_limit = output_limit(&request)?;
        let streaming = request.stream;
        let live = request.stdin == i32::from(Stdin::Live);
        let limit = time_limit(&request);
        let start = deadline(patience.start);
        let mut operation = self.begin(EXECUTE, Lane::Execution, Op::Execute(request), start).await?;
        let mut overdue = patience.overdue(Duration::ZERO, patience.start);
        let started = match operation.receive_overdue(&mut overdue).await? {
            Reply::Started(started) => {
                Started::from_wire(&started).map_err(|what| operation.violated(what))?
            }
            other => return Err(operation.unexpected(&other)),
        };
        let (stdin, pump) = operation
            .take_writer()
            .filter(|_| live)
            .map(stdin::start)
            .map_or((None, None), |(stdin, pump)| (Some(stdin), Some(pump)));
        Ok(Execution {
            started,
            operation,
            stdin,
            _pump: pump,
            streaming,
            output_limit,
            overdue: limit.map(|limit| patience.overdue(limit, limit.saturating_add(patience.grace))),
            late: 0,
            over: false,
        })
    }

    /// Runs a program to its end with the usual patience. Of what it writes only the result tells, and standard
    /// input that is to be sent live is ended.
    ///
    /// # Errors
    /// See [`AgentError`].
    pub async fn run(&self, request: ExecuteRequest) -> Result<Finished, AgentError> {
        let patience = ExecutePatience::default();
        let live = request.stdin == i32::from(Stdin::Live);
        let Some(limit) = time_limit(&request).filter(|_| !live) else {
            // Its start is the only sign of life that has to come.
            return self.execute_with(request, patience).await?.wait().await;
        };
        self.heeds_clock(&request)?;
        let output_limit = output_limit(&request)?;
        let request = ExecuteRequest { stream: false, unannounced: true, ..request };
        let start = deadline(patience.start);
        let mut operation = self.begin(EXECUTE, Lane::Execution, Op::Execute(request), start).await?;
        let most = patience.start.saturating_add(limit).saturating_add(patience.grace);
        let mut overdue = patience.overdue(limit, most);
        let mut reply = operation.receive_overdue(&mut overdue).await?;
        if matches!(reply, Reply::Started(_)) {
            // An agent of before 3.3 tells it all the same.
            reply = operation.receive_overdue(&mut overdue).await?;
        }
        match reply {
            Reply::Result(result) => {
                Finished::from_wire(result, output_limit).map_err(|what| operation.violated(what))
            }
            other => Err(operation.unexpected(&other)),
        }
    }

    /// Refuses a clock of its own where the agent would run the program with the guest's.
    fn heeds_clock(&self, request: &ExecuteRequest) -> Result<(), AgentError> {
        if request.clock_unix_nanos == 0 && request.timezone.is_empty() {
            return Ok(());
        }
        self.heeds(EXECUTE, "clocks of executions", CLOCK_SINCE)
    }
}

/// How many characters of each stream the result may hold.
fn output_limit(request: &ExecuteRequest) -> Result<usize, AgentError> {
    let limit = effective_limit(request.output_limit);
    if (MIN_OUTPUT_LIMIT..=MAX_OUTPUT_LIMIT).contains(&limit) {
        return Ok(limit);
    }
    let what = format!(
        "an output limit of {limit} characters is not between {MIN_OUTPUT_LIMIT} and {MAX_OUTPUT_LIMIT}"
    );
    Err(AgentError::Invalid { operation: EXECUTE, what: what.into() })
}

/// How long the program may run.
fn time_limit(request: &ExecuteRequest) -> Option<Duration> {
    Some(request.timeout_millis).filter(|&millis| millis != 0).map(Duration::from_millis)
}

impl Execution {
    /// What was started.
    #[must_use]
    pub fn started(&self) -> &Started {
        &self.started
    }

    /// The program's standard input, once, if the request asked for [`Stdin::Live`]. Independent of the
    /// execution, so that writing and reading cannot wait for each other.
    pub fn take_stdin(&mut self) -> Option<StdinWriter> {
        self.stdin.take()
    }

    /// The next event; `None` after the last. Can be abandoned and called again without losing anything.
    ///
    /// # Errors
    /// See [`AgentError`]; nothing follows an error either.
    pub async fn next(&mut self) -> Result<Option<Event>, AgentError> {
        if self.over {
            return Ok(None);
        }
        let reply = match &mut self.overdue {
            Some(overdue) => self.operation.receive_overdue(overdue).await,
            None => self.operation.receive(None).await,
        };
        let event = reply.and_then(|reply| self.event(reply));
        self.over = !matches!(event, Ok(Event::Output { .. }));
        event.map(Some)
    }

    /// Gives the agent this much longer: the guest's processors stood still, and with them the program's clock.
    pub fn postpone(&mut self, by: Duration) {
        if let Some(overdue) = &mut self.overdue {
            overdue.postpone(by);
        }
    }

    /// Waits for the end, letting go of live output: the result holds what matters of it. Standard input that
    /// nobody took is ended.
    ///
    /// # Errors
    /// See [`AgentError`].
    pub async fn wait(mut self) -> Result<Finished, AgentError> {
        if let Some(stdin) = self.stdin.take() {
            stdin.eof();
        }
        while let Some(event) = self.next().await? {
            if let Event::Finished(finished) = event {
                return Ok(*finished);
            }
        }
        // Only a caller that took the last event with `next` and still waits gets here.
        Err(self.operation.invalid("it has ended already"))
    }

    fn event(&mut self, reply: Reply) -> Result<Event, AgentError> {
        match reply {
            Reply::Output(output) if self.streaming => {
                if self.overdue.is_some_and(|overdue| overdue.deadline < Instant::now()) {
                    self.late = self.late.saturating_add(output.data.len() + LATE_PIECE);
                }
                if self.late > MAX_LATE_BYTES {
                    return Err(self.operation.violated("output long after its time limit"));
                }
                if output.data.len() > MAX_CHUNK_BYTES {
                    return Err(self.operation.violated("a piece of output that exceeds its limit"));
                }
                let stream = match wire::OutputStream::try_from(output.stream) {
                    Ok(wire::OutputStream::Stdout) => OutputStream::Stdout,
                    Ok(wire::OutputStream::Stderr) => OutputStream::Stderr,
                    Ok(wire::OutputStream::Unspecified) | Err(_) => {
                        return Err(self.operation.violated("output of no known stream"));
                    }
                };
                Ok(Event::Output { stream, data: output.data })
            }
            Reply::Result(result) => Finished::from_wire(result, self.output_limit)
                .map(|finished| Event::Finished(Box::new(finished)))
                .map_err(|what| self.operation.violated(what)),
            other => Err(self.operation.unexpected(&other)),
        }
    }
}

#[cfg(test)]
mod tests;
