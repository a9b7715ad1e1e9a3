//! A context's program while it runs: asked to run code, read from, interrupted, ended.

use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;
use std::time::Duration;

use tokio::sync::{Semaphore, SemaphorePermit};
use tokio::time::timeout;

use super::context::Context;
use super::events::{CodeError, CodeEvent, Said, read};
use super::frames::{Frame, Frames, Text};
use crate::agent::{ExecutionClock, Finished, Outcome, OutputStream};
use crate::network::NetworkSummary;
use crate::service::caller::Caller;
use crate::service::detached::{AttachEvent, Attachment, DetachedSpec};
use crate::service::error::ServiceError;
use crate::service::id::ExecutionId;
use crate::service::program::{ExecuteSpec, Input};
use crate::service::registry::Service;
use crate::service::sandbox::Sandbox;

/// Messages larger than this
const LARGE: usize = 256 * 1024;
/// are read so many at a time over all sandboxes, so that what they hold is bounded;
static LARGE_AT_ONCE: Semaphore = Semaphore::const_new(32);
/// who has to wait for longer, or takes longer to send one, goes without it.
const LARGE_WITHIN: Duration = Duration::from_secs(60);
/// Signals.
const INTERRUPT: u32 = 2;
const KILL: u32 = 9;

/// A context's program.
#[derive(Debug)]
pub(super) struct Driver {
    attached: Attachment,
    streams: [Stream; 2],
    told: VecDeque<CodeEvent>,
    /// The last run it was asked for.
    run: u64,
    /// It has ended that run.
    idle: bool,
    /// Held while a large message comes in.
    large: Option<(SemaphorePermit<'static>, tokio::time::Instant)>,
    /// What it had done on the network when that run began.
    before: NetworkSummary,
}

/// One of its streams.
#[derive(Debug, Default)]
struct Stream {
    frames: Frames,
    text: Text,
    /// What comes belongs to the run under way.
    begun: bool,
    ended: bool,
}

/// What a driver tells next.
#[derive(Debug)]
pub(super) enum Told {
    Event(CodeEvent),
    /// The run is over.
    Over,
    /// The program is, and this is how.
    Died(Arc<Finished>),
}

impl Driver {
    /// Starts the program of a context.
    pub(super) async fn start(
        (service, caller, sandbox): At<'_>,
        context: &Context,
    ) -> Result<Self, ServiceError> {
        let language = context.view.language;
        let program = ExecuteSpec {
            program: language.program(),
            user: context.user(),
            plain_interpreter: false,
            env: BTreeMap::new(),
            cwd: context.view.cwd.clone(),
            timeout: None,
            memory_bytes: 0,
            output_limit: None,
            clock: ExecutionClock::default(),
        };
        let spec = DetachedSpec {
            program,
            input: Input::Live,
            terminal: None,
            tag: Some(format!("code interpreter: {}", language.name())),
            hidden: true,
        };
        let attached = service.start_attached(caller, sandbox, spec).await?;
        context.set_program(Some(attached.id()));
        let (streams, told) = (Default::default(), VecDeque::new());
        let before = NetworkSummary::default();
        Ok(Self { attached, streams, told, run: 0, idle: true, large: None, before })
    }

    pub(super) fn id(&self) -> ExecutionId {
        self.attached.id()
    }

    /// Whether it waits for code. One that was left in the middle of a request is of no use any more.
    pub(super) fn is_idle(&self) -> bool {
        self.idle
    }

    /// Asks it to run code.
    pub(super) async fn ask(
        &mut self,
        (service, caller, sandbox): At<'_>,
        context: &Context,
        code: &str,
        env: &BTreeMap<String, String>,
    ) -> Result<(), ServiceError> {
        self.run += 1;
        self.idle = false;
        self.told.clear();
        for stream in &mut self.streams {
            (stream.begun, stream.ended) = (false, false);
        }
        // From here on the program waits for its reader; before, what it printed was nobody's.
        self.attached.set_held(true);
        let request = context.view.language.request(self.run, code, env);
        let alive = service.alive(caller, sandbox)?;
        let journal = alive.gate.journal();
        // What the program connects to from here on is of this call.
        journal.set_origin(self.id().0, caller.origin.clone());
        self.before = journal.so_far(self.id().0);
        service.send_input(caller, sandbox, &self.id().to_string(), request, false).await
    }

    /// What it has done on the network since it was asked to run the last code.
    pub(super) fn network(&self, sandbox: &Sandbox) -> NetworkSummary {
        sandbox.gate.journal().so_far(self.id().0).since(&self.before)
    }

    /// What it tells next. Can be abandoned and called again without losing anything.
    pub(super) async fn next(&mut self) -> Result<Told, ServiceError> {
        loop {
            if let Some(event) = self.told.pop_front() {
                return Ok(Told::Event(event));
            }
            if self.streams.iter().all(|stream| stream.ended) {
                self.idle = true;
                self.large = None;
                self.attached.set_held(false);
                return Ok(Told::Over);
            }
            if let Some(finished) = self.read().await? {
                return Ok(Told::Died(finished));
            }
        }
    }

    /// Waits until it has begun with the run, and can be interrupted.
    pub(super) async fn begun(&mut self) -> Result<(), ServiceError> {
        while !self.streams.iter().all(|stream| stream.begun || stream.ended) {
            if self.read().await?.is_some() {
                return Err(ServiceError::ExecutionEnded);
            }
        }
        Ok(())
    }

    /// Reads what there is next; its end, and an error, mean that the program has ended.
    async fn read(&mut self) -> Result<Option<Arc<Finished>>, ServiceError> {
        self.bound_large().await;
        match self.attached.next().await? {
            Some(AttachEvent::Output { stream, data }) => self.take(stream, &data),
            Some(AttachEvent::Missed { stdout, stderr }) => self.missed(stdout.saturating_add(stderr)),
            Some(AttachEvent::Finished(executed)) => return Ok(Some(executed.finished)),
            None => return Err(ServiceError::ExecutionEnded),
        }
        Ok(None)
    }

    /// Waits for its turn when a large message comes in.
    async fn bound_large(&mut self) {
        let held: usize = self.streams.iter().map(|stream| stream.frames.held()).sum();
        if held <= LARGE {
            self.large = None;
            return;
        }
        let late = match &self.large {
            Some((_, since)) => since.elapsed() > LARGE_WITHIN,
            None => match timeout(LARGE_WITHIN, LARGE_AT_ONCE.acquire()).await {
                Ok(Ok(permit)) => {
                    self.large = Some((permit, tokio::time::Instant::now()));
                    false
                }
                Ok(Err(_)) | Err(_) => true,
            },
        };
        if late {
            self.large = None;
            for stream in &mut self.streams {
                stream.frames.cut();
            }
            self.told.push_back(note("a large result was left out: too many are under way"));
        }
    }

    fn take(&mut self, stream: OutputStream, data: &[u8]) {
        let number = usize::from(stream == OutputStream::Stderr);
        let print = |text: String| match stream {
            OutputStream::Stdout => CodeEvent::Stdout(text),
            OutputStream::Stderr => CodeEvent::Stderr(text),
        };
        let of = &mut self.streams[number];
        of.frames.push(data);
        while let Some(frame) = of.frames.next() {
            let under_way = of.begun && !of.ended;
            match frame {
                Frame::Printed(bytes) if under_way => {
                    let text = of.text.push(&bytes);
                    if !text.is_empty() {
                        self.told.push_back(print(text));
                    }
                }
                // Printed between runs: nobody has asked for it.
                Frame::Printed(_) => {}
                Frame::TooLong => self.told.push_back(note("a result was left out: it is too large")),
                Frame::Message(bytes) => match read(&bytes) {
                    Said::Begin(run) if run == self.run => {
                        of.begun = true;
                        of.text = Text::default();
                    }
                    Said::End(run) if run == self.run => {
                        of.ended = true;
                        let rest = of.text.finish();
                        if !rest.is_empty() {
                            self.told.push_back(print(rest));
                        }
                    }
                    Said::Event(event) if under_way => self.told.push_back(event),
                    Said::Begin(_) | Said::End(_) | Said::Event(_) | Said::Nothing => {}
                },
            }
        }
    }

    /// Output was not read in time, or came while nobody was there to read it.
    fn missed(&mut self, bytes: u64) {
        let under_way = self.streams.iter().any(|stream| stream.begun);
        for stream in &mut self.streams {
            stream.frames.cut();
        }
        if under_way {
            self.told.push_back(note(&format!("{bytes} bytes of output were not read in time and are gone")));
        }
    }
}

/// Where a program is, and who asks.
pub(super) type At<'a> = (&'a Service, &'a Caller, &'a str);

/// Asks a context's program to end what it does.
pub(super) async fn interrupt(at: At<'_>, context: &Context) -> Result<(), ServiceError> {
    signal(at, context.program(), INTERRUPT, context.view.language.interrupts_everyone()).await
}

/// Ends a program and all it has started.
pub(super) async fn kill(at: At<'_>, program: Option<ExecutionId>) -> Result<(), ServiceError> {
    signal(at, program, KILL, true).await
}

async fn signal(
    (service, caller, sandbox): At<'_>,
    program: Option<ExecutionId>,
    signal: u32,
    everyone: bool,
) -> Result<(), ServiceError> {
    let Some(program) = program else { return Ok(()) };
    match service.signal_detached(caller, sandbox, &program.to_string(), signal, everyone).await {
        // It has ended by itself.
        Err(ServiceError::ExecutionEnded | ServiceError::UnknownExecution) => Ok(()),
        sent => sent,
    }
}

fn note(text: &str) -> CodeEvent {
    CodeEvent::Stderr(format!("rekindle: {text}\n"))
}

/// What is said of a program that has ended.
pub(super) fn died(outcome: Outcome) -> CodeError {
    let how = match outcome {
        Outcome::Exited(code) => format!("ended with exit code {code}"),
        Outcome::Signaled(signal) => format!("was ended by signal {signal}"),
        Outcome::OutOfMemory => "ran out of memory".to_owned(),
        Outcome::Cancelled | Outcome::TimedOut => "was ended".to_owned(),
    };
    let value =
        format!("the context's process {how}; what was defined is gone, and the next run begins anew");
    CodeError { name: "ContextEnded".to_owned(), value, ..CodeError::default() }
}
