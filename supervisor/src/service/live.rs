//! Runs a program whose output and input are live.

use bytes::Bytes;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use super::call::Call;
use super::caller::{Caller, Scope};
use super::error::ServiceError;
use super::execute::{Executed, note_finished};
use super::id::ExecutionId;
use super::program::{ExecuteSpec, Input};
use super::registry::Service;
use super::sandbox::Sandbox;
use crate::agent::{Event, Execution, OutputStream, StdinClosed, StdinWriter, TerminalSize};

/// How long a signal or a new size may take to reach the program.
const PROMPT: Duration = Duration::from_secs(30);

/// What a live execution tells.
#[derive(Debug)]
pub enum LiveEvent {
    /// It printed.
    Output {
        /// Where.
        stream: OutputStream,
        /// What.
        data: Bytes,
    },
    /// It ended.
    Finished(Executed),
}

/// A program that runs. Dropping it kills the program.
#[derive(Debug)]
pub struct LiveExecution {
    id: ExecutionId,
    execution: Option<Execution>,
    call: Option<Call>,
    printed: u64,
    stdin: Option<LiveInput>,
    pid: u32,
    number: u64,
}

/// The program's standard input; what goes into it is counted.
#[derive(Debug)]
pub struct LiveInput {
    writer: StdinWriter,
    fed: Arc<AtomicU64>,
}

/// Reaches the program from beside its output: signals and the size of its terminal.
#[derive(Debug, Clone)]
pub struct Steering {
    sandbox: Arc<Sandbox>,
    number: u64,
}

impl Service {
    /// Starts a program.
    ///
    /// # Errors
    /// See [`ServiceError`].
    pub async fn execute_live(
        &self,
        caller: &Caller,
        sandbox: &str,
        spec: &ExecuteSpec,
        input: Input,
        terminal: Option<TerminalSize>,
    ) -> Result<LiveExecution, ServiceError> {
        caller.require(Scope::Exec)?;
        let sandbox = self.alive(caller, sandbox)?;
        let request = spec.request(self.config(), &input, terminal, true)?;
        let mut call = Call::begin(self, sandbox, "execute_stream", &spec.about())?;
        let id = call.sandbox().next_execution();
        call.execution(id);
        let started = call.wait(call.sandbox().vm.agent().execute(request)).await;
        match started {
            Ok(mut execution) => {
                let fed = call.fed();
                let stdin = execution.take_stdin().map(|writer| LiveInput { writer, fed });
                let started = execution.started();
                Ok(LiveExecution {
                    id,
                    execution: Some(execution),
                    call: Some(call),
                    printed: 0,
                    stdin,
                    pid: started.pid,
                    number: started.execution,
                })
            }
            Err(error) => {
                let failed = Err(error);
                call.done(&failed);
                failed
            }
        }
    }
}

impl LiveExecution {
    /// Its name.
    #[must_use]
    pub fn id(&self) -> ExecutionId {
        self.id
    }

    /// Its process id in the sandbox.
    #[must_use]
    pub fn pid(&self) -> u32 {
        self.pid
    }

    /// Its standard input, once.
    pub fn take_stdin(&mut self) -> Option<LiveInput> {
        self.stdin.take()
    }

    /// What reaches it from beside.
    #[must_use]
    pub fn steering(&self) -> Option<Steering> {
        let sandbox = self.call.as_ref()?.sandbox().clone();
        Some(Steering { sandbox, number: self.number })
    }

    /// The next event; `None` after the last. Can be abandoned and called again without losing anything.
    ///
    /// # Errors
    /// See [`ServiceError`]; nothing follows an error.
    pub async fn next(&mut self) -> Result<Option<LiveEvent>, ServiceError> {
        let (Some(execution), Some(call)) = (&mut self.execution, &self.call) else { return Ok(None) };
        let event = call.wait(execution.next()).await;
        match event {
            Ok(Some(Event::Output { stream, data })) => {
                self.printed = self.printed.saturating_add(data.len() as u64);
                let printed = self.printed;
                // Kept up to date, so that who goes away in the middle has been counted too.
                if let Some(call) = &mut self.call {
                    call.note(|entry| entry.bytes_out = printed);
                }
                Ok(Some(LiveEvent::Output { stream, data }))
            }
            Ok(Some(Event::Finished(finished))) => {
                self.execution = None;
                if let Some(mut call) = self.call.take() {
                    note_finished(&mut call, &finished);
                    call.done(&Ok(()));
                }
                let finished = Arc::from(finished);
                Ok(Some(LiveEvent::Finished(Executed { execution: self.id, finished, replayed: false })))
            }
            Ok(None) => Ok(None),
            Err(error) => {
                self.execution = None;
                let failed: Result<(), _> = Err(error);
                if let Some(call) = self.call.take() {
                    call.done(&failed);
                }
                failed.map(|()| None)
            }
        }
    }
}

impl LiveInput {
    /// Sends more of it, waiting for the program to read.
    ///
    /// # Errors
    /// When nobody reads it any more.
    pub async fn send(&mut self, data: Bytes) -> Result<(), StdinClosed> {
        let size = data.len() as u64;
        self.writer.send(data).await?;
        self.fed.fetch_add(size, Ordering::Relaxed);
        Ok(())
    }

    /// Ends it.
    pub fn eof(self) {
        self.writer.eof();
    }
}

impl Steering {
    /// Sends a signal to the program's first process.
    ///
    /// # Errors
    /// When there is no such signal or the program has ended.
    pub async fn signal(&self, signal: u32) -> Result<(), ServiceError> {
        let signal = u8::try_from(signal).ok().filter(|signal| (1..=64).contains(signal));
        let signal = signal.ok_or_else(|| ServiceError::invalid("a signal is a number from 1 to 64"))?;
        let agent = self.sandbox.vm.agent();
        agent.signal(self.number, signal, false, PROMPT).await.map_err(ServiceError::Agent)
    }

    /// Changes the size of its terminal.
    ///
    /// # Errors
    /// When it has none or has ended.
    pub async fn resize(&self, size: TerminalSize) -> Result<(), ServiceError> {
        let agent = self.sandbox.vm.agent();
        agent.resize(self.number, size, PROMPT).await.map_err(ServiceError::Agent)
    }
}
