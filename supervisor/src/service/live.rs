//! Runs a program whose output and input are live.
//!
//! The stream is the program's life as long as somebody reads it. One that nobody reads may outlast its program; a
//! pause cuts it off then, because nothing is under way any more.

use bytes::Bytes;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;

use tokio::sync::Mutex;

use super::call::Call;
use super::caller::{Caller, Scope};
use super::create::check_memory;
use super::error::ServiceError;
use super::execute::Executed;
use super::id::ExecutionId;
use super::program::{ExecuteSpec, Input};
use super::registry::Service;
use super::sandbox::Sandbox;
use crate::agent::{
    Event, Execution, OutputStream, SpillPaths, Started, StdinClosed, StdinWriter, TerminalSize,
};

/// How long a signal or a new size may take to reach the program.
pub(super) const PROMPT: Duration = Duration::from_secs(30);

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
    call: Arc<LiveCall>,
    sandbox: Arc<Sandbox>,
    printed: u64,
    stdin: Option<LiveInput>,
    pid: u32,
    spilled: SpillPaths,
}

/// A live execution as its sandbox knows it.
#[derive(Debug)]
pub(super) struct LiveCall {
    /// The agent's name for it.
    number: u64,
    /// Locked by whoever reads, and nobody else waits for it. Gone when it is over.
    under_way: Mutex<Option<UnderWay>>,
    /// It was cut off, and its caller does not know yet.
    cut: AtomicBool,
}

#[derive(Debug)]
struct UnderWay {
    execution: Execution,
    call: Call,
}

impl LiveCall {
    /// Whether it goes on. Whoever reads it at this moment holds the lock.
    pub(super) fn is_under_way(&self) -> bool {
        self.under_way.try_lock().map_or(true, |under_way| under_way.is_some())
    }

    /// Whether its program runs. What cannot be asked is believed to.
    pub(super) async fn runs(&self, sandbox: &Sandbox) -> bool {
        sandbox.agent().runs(self.number, PROMPT).await.unwrap_or(true)
    }

    /// Ends it, unless somebody reads it at this moment. Who reads on hears that the sandbox was paused.
    pub(super) fn cut(&self) {
        let Ok(mut under_way) = self.under_way.try_lock() else { return };
        if let Some(UnderWay { execution, call }) = under_way.take() {
            self.cut.store(true, Ordering::Relaxed);
            drop(execution);
            call.done::<()>(&Err(ServiceError::Paused));
        }
    }
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
        sandbox.check_user(caller, spec.user)?;
        check_memory(spec.memory_bytes, sandbox.facts.limits.memory_bytes)?;
        let mut request = spec.request(self.config(), &input, terminal, true)?;
        let mut call = Call::begin_turn(self, sandbox, &caller.origin, "execute_stream", &spec.about())?;
        let id = call.sandbox().next_execution();
        call.execution(id);
        request.label = id.0;
        let started = call.wait(call.sandbox().agent().execute(request)).await;
        match started {
            Ok(mut execution) => {
                let fed = call.fed();
                let stdin = execution.take_stdin().map(|writer| LiveInput::new(writer, fed));
                let started = execution.started().clone();
                let sandbox = call.sandbox().clone();
                let call = Arc::new(LiveCall {
                    number: started.execution,
                    under_way: Mutex::new(Some(UnderWay { execution, call })),
                    cut: AtomicBool::new(false),
                });
                {
                    let live = &mut sandbox.lock().live;
                    live.retain(|call| call.strong_count() > 0);
                    live.push(Arc::downgrade(&call));
                }
                let Started { pid, spilled, .. } = started;
                Ok(LiveExecution { id, call, sandbox, printed: 0, stdin, pid, spilled })
            }
            Err(error) => {
                let failed = Err(call.not_in_timezone(error, spec.clock.timezone()).await);
                call.not_started(&failed);
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

    /// Where in the sandbox its output is kept while it runs.
    #[must_use]
    pub fn spilled(&self) -> &SpillPaths {
        &self.spilled
    }

    /// Its standard input, once.
    pub fn take_stdin(&mut self) -> Option<LiveInput> {
        self.stdin.take()
    }

    /// What reaches it from beside.
    #[must_use]
    pub fn steering(&self) -> Option<Steering> {
        Some(Steering { sandbox: self.sandbox.clone(), number: self.call.number })
    }

    /// The next event; `None` after the last. Can be abandoned and called again without losing anything.
    ///
    /// # Errors
    /// See [`ServiceError`]; nothing follows an error.
    pub async fn next(&mut self) -> Result<Option<LiveEvent>, ServiceError> {
        let mut under_way = self.call.under_way.lock().await;
        let Some(UnderWay { execution, call }) = under_way.as_mut() else {
            let cut = self.call.cut.swap(false, Ordering::Relaxed);
            return if cut { Err(ServiceError::Paused) } else { Ok(None) };
        };
        let event = call.wait(execution.next()).await;
        match event {
            Ok(Some(Event::Output { stream, data })) => {
                self.printed = self.printed.saturating_add(data.len() as u64);
                let printed = self.printed;
                // Kept up to date, so that who goes away in the middle has been counted too.
                call.note(|entry| entry.bytes_out = printed);
                Ok(Some(LiveEvent::Output { stream, data }))
            }
            Ok(Some(Event::Finished(finished))) => {
                let ended = under_way.take().map(|UnderWay { call, .. }| call.ended(self.id, *finished));
                Ok(ended.map(LiveEvent::Finished))
            }
            Ok(None) => Ok(None),
            Err(error) => {
                let failed: Result<(), _> = Err(error);
                if let Some(UnderWay { call, .. }) = under_way.take() {
                    call.done(&failed);
                }
                failed.map(|()| None)
            }
        }
    }
}

impl LiveInput {
    /// Input of which every byte is added to `fed`.
    pub(super) fn new(writer: StdinWriter, fed: Arc<AtomicU64>) -> Self {
        Self { writer, fed }
    }

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
        let signal = signal_number(signal)?;
        let agent = self.sandbox.agent();
        agent.signal(self.number, signal, false, PROMPT).await.map_err(ServiceError::Agent)
    }

    /// Changes the size of its terminal.
    ///
    /// # Errors
    /// When it has none or has ended.
    pub async fn resize(&self, size: TerminalSize) -> Result<(), ServiceError> {
        let agent = self.sandbox.agent();
        agent.resize(self.number, size, PROMPT).await.map_err(ServiceError::Agent)
    }
}

/// A signal that there is.
pub(super) fn signal_number(signal: u32) -> Result<u8, ServiceError> {
    let signal = u8::try_from(signal).ok().filter(|signal| (1..=64).contains(signal));
    signal.ok_or_else(|| ServiceError::invalid("a signal is a number from 1 to 64"))
}
