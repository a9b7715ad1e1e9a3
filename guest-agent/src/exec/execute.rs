//! One execution from request to result.
//!
//! ```text
//!   checked ──► started ──► running ──exit──────────► drained ──► result
//!                              ├──timeout──► killed ──►┘
//!                              └──host gone► killed ──► (nobody to tell)
//! ```

use std::io;
use std::os::fd::AsFd;
use std::os::unix::ffi::OsStringExt;
use std::sync::Arc;
use std::time::{Duration, Instant};

use bytes::Bytes;
use rekindle_protocol::frame;
use rekindle_protocol::limits::MAX_EXECUTIONS;
use rekindle_protocol::mux::Stream;
use rekindle_protocol::output::Collector;
use rekindle_protocol::wire::execute_result::Outcome;
use rekindle_protocol::wire::response::Reply;
use rekindle_protocol::wire::{self, ErrorCode, OutputStream};
use tokio::io::AsyncWriteExt;
use tokio::sync::{Mutex, mpsc, oneshot, watch};

use crate::agent::{Agent, Busy};
use crate::cgroup::ExecutionGroup;
use crate::exec::child::{self, ChildSetup};
use crate::exec::diagnosis::{Ended, diagnose};
use crate::exec::input;
use crate::exec::output::{Pump, Pumped};
use crate::exec::pumps::{Pumps, collected};
use crate::exec::registry::{RunningExecution, Slot, Tidying};
use crate::exec::spec::{Input, Spec};
use crate::exec::spill::{Spill, Spills};
use crate::exec::stdio::{self, Channel};
use crate::failure::Failure;
use crate::interpreters::{self, Claimed};
use crate::reaper::{Exit, Status};
use crate::session::{reply, response};

/// What the spilled bytes of the streams are called.
const STDOUT: &str = "stdout";
const STDERR: &str = "stderr";
/// Frames of live output that may wait for the host.
const LIVE_BACKLOG: usize = 4;
/// How long what was killed may take to be gone.
const DEATH_DEADLINE: Duration = Duration::from_secs(10);

/// Carries out an execute request on its stream.
pub async fn execute(agent: &Arc<Agent>, request: wire::ExecuteRequest, stream: Stream) {
    let busy = agent.begin();
    let tidying = match Execution::start(agent, request, busy.first).await {
        Ok(execution) => execution.run(stream, busy).await,
        Err(failure) => {
            reply(stream, failure.into_response()).await;
            None
        }
    };
    interpreters::refill(agent);
    // Only now: whoever waits for it finds that interpreters are being started.
    drop(tidying);
}

/// Why an execution was brought to an end.
enum End {
    Itself(Option<Exit>),
    Timeout(Duration),
    HostGone,
}

struct Execution {
    agent: Arc<Agent>,
    id: u64,
    spec: Spec,
    slot: Option<Slot>,
    running: Arc<RunningExecution>,
    input: Option<Channel>,
    output: Option<Channel>,
    error: Option<Channel>,
    exit: oneshot::Receiver<Exit>,
    started: Instant,
    spill_cap: u64,
    interpreter: wire::Interpreter,
}

impl Execution {
    async fn start(
        agent: &Arc<Agent>,
        request: wire::ExecuteRequest,
        untouched: bool,
    ) -> Result<Self, Failure> {
        let sandbox = agent.gate.pass()?;
        let spec = Spec::parse(agent, &sandbox, request)?;
        let slot = agent.executions.slot().ok_or_else(|| {
            Failure::new(ErrorCode::Busy, format!("{MAX_EXECUTIONS} executions are under way"))
        })?;
        let id = agent.executions.next_id();
        let system = |error: io::Error| Failure::system("prepare an execution", &error);
        let limits = (spec.memory_bytes, spec.pids);
        let group = agent.executions.group(&agent.cgroups, id, limits).map_err(system)?;
        if let Some(group) = &group {
            agent.executions.label(group, spec.label);
        }
        let started = Instant::now();
        let claimed = interpreters::claim(agent, &spec, group.as_ref(), untouched).await.map_err(system)?;
        let warmed = claimed.is_some();
        let Claimed { child, exit, ends, own_ends } = match claimed {
            Some(claimed) => claimed,
            None => begin(agent, &spec, group.as_ref()).map_err(system)?,
        };
        let running = child.running(&spec).await;
        // Only now: a warm interpreter opens them itself.
        drop(own_ends);
        let interpreter = match (spec.language, running?) {
            (None, _) => wire::Interpreter::Unspecified,
            (Some(_), child::ProgramStart::AsAsked) if warmed => wire::Interpreter::Warmed,
            (Some(_), _) => wire::Interpreter::Plain,
        };
        let running = RunningExecution {
            pid: child.pid,
            process_group: child.process_group,
            pidfd: child.pidfd,
            group,
            terminal: ends.terminal,
        };
        let spill_cap = sandbox.spilled_output_bytes;
        Ok(Self {
            agent: agent.clone(),
            id,
            spec,
            slot: Some(slot),
            running: Arc::new(running),
            input: ends.input,
            output: Some(ends.output),
            error: ends.error,
            exit,
            started,
            spill_cap,
            interpreter,
        })
    }

    /// Sees it to its end and tells the host. Returns with everything in order again.
    async fn run(mut self, stream: Stream, busy: Busy) -> Option<Tidying> {
        let agent = self.agent.clone();
        let entry = agent.executions.enter(self.id, self.running.clone(), self.slot.take());
        let (mut host, mut to_host) = tokio::io::split(stream);
        let (replies, mut outgoing) = mpsc::channel::<Reply>(LIVE_BACKLOG);
        let (ended, watch_end) = watch::channel(false);
        let pieces = self.feed_input();
        let pumps = self.pumps(&replies, &watch_end);

        let sending = tokio::spawn(async move {
            while let Some(next) = outgoing.recv().await {
                if frame::write(&mut to_host, &response(next)).await.is_err() {
                    return;
                }
            }
            // At once, so that it leaves together with the result. The host may be gone.
            let _ = to_host.shutdown().await;
        });
        if self.spec.announced {
            let hello = self.hello();
            // A host that is gone is noticed below.
            let _ = replies.send(Reply::Started(hello)).await;
        }

        let timeout = self.spec.timeout;
        let end = tokio::select! {
            exit = &mut self.exit => End::Itself(exit.ok()),
            () = input::listen(&mut host, pieces) => End::HostGone,
            () = after(timeout) => End::Timeout(timeout.unwrap_or_default()),
        };
        let killed = !matches!(end, End::Itself(_));
        if killed {
            self.running.kill();
            // The reaper tells of the first process; the group is waited for when it is closed.
            let _ = tokio::time::timeout(DEATH_DEADLINE, &mut self.exit).await;
        }
        drop(entry);
        // Nobody watches any more only if both pumps are done.
        let _ = ended.send(true);
        let wall = self.started.elapsed();
        if matches!(end, End::HostGone) {
            pumps.abandon();
            sending.abort();
            self.close_killed().await;
            return None;
        }
        let (stdout, stderr) = pumps.finish().await;
        let result = self.result(end, wall, stdout, stderr).await;
        // Who is told of a kill finds nothing left of it; after an ordinary end the host need not wait.
        let mut ended = Some(self);
        if let Some(killed) = ended.take_if(|_| killed) {
            killed.close_killed().await;
        }
        // Before the host can know of the end, and act on it.
        let tidying = Tidying::begin(&agent);
        drop(busy);
        let _ = replies.send(Reply::Result(result)).await;
        drop(replies);
        let _ = sending.await;
        // The event loop sends the result first. Then beside it: the kernel takes milliseconds for what follows.
        tokio::task::yield_now().await;
        let tidied = tokio::task::spawn_blocking(move || {
            if let Some(group) = ended.and_then(Self::into_group) {
                group.close();
            }
            agent.tuning.execution_done(&agent);
        });
        let _ = tidied.await;
        Some(tidying)
    }

    /// What the host is told of the program that runs.
    fn hello(&self) -> wire::Started {
        let path = |name, there: bool| match there && self.spill_cap > 0 {
            true => self.agent.spilled.path(self.id, name).into_os_string().into_vec().into(),
            false => Bytes::new(),
        };
        wire::Started {
            execution: self.id,
            pid: self.running.pid as u32,
            stdout_path: path(STDOUT, true),
            stderr_path: path(STDERR, self.spec.terminal.is_none()),
        }
    }

    /// Starts feeding standard input; what it returns takes live pieces.
    fn feed_input(&mut self) -> Option<mpsc::Sender<Bytes>> {
        let channel = self.input.take()?;
        let (sender, receiver) = mpsc::channel(LIVE_BACKLOG);
        let terminal = self.spec.terminal.is_some();
        let live = match std::mem::replace(&mut self.spec.input, Input::Nothing) {
            Input::Live => Some(sender),
            Input::Whole(bytes) => {
                // The channel is empty and has room.
                let _ = sender.try_send(bytes);
                None
            }
            // A terminal nobody types on stays open.
            Input::Nothing => return None,
        };
        tokio::spawn(input::feed(channel, receiver, terminal));
        live
    }

    fn pumps(&mut self, replies: &mpsc::Sender<Reply>, ended: &watch::Receiver<bool>) -> Pumps {
        let spill = |name| Spill::new(self.agent.spilled.path(self.id, name), self.spill_cap);
        let spills = Arc::new(Mutex::new(Spills::new(spill(STDOUT), spill(STDERR))));
        let pump = |channel, stream| {
            let spills = Arc::clone(&spills);
            let collector = Collector::new(self.spec.output_limit);
            let live = self.spec.stream.then(|| replies.clone());
            tokio::spawn(Pump { channel, stream, collector, spills, live }.run(ended.clone()))
        };
        let (output, error) = (self.output.take(), self.error.take());
        Pumps {
            stdout: output.map(|channel| pump(channel, OutputStream::Stdout)),
            stderr: error.map(|channel| pump(channel, OutputStream::Stderr)),
        }
    }

    async fn result(
        &self,
        end: End,
        wall: Duration,
        stdout: Option<Pumped>,
        stderr: Option<Pumped>,
    ) -> wire::ExecuteResult {
        let group = self.running.group.as_ref();
        let (stdout, stderr) = (collected(stdout).await, collected(stderr).await);
        if stdout.truncated || stderr.truncated {
            self.agent.spilled.remember(self.id);
        }
        let mut usage = wire::Usage { wall_micros: wall.as_micros() as u64, ..Default::default() };
        if let End::Itself(Some(exit)) = &end {
            usage.cpu_micros = exit.cpu_micros;
            usage.peak_memory_bytes = exit.peak_memory_bytes;
        }
        // The group knows of every process, not only of those that were waited for.
        usage.cpu_micros = group.and_then(ExecutionGroup::cpu_micros).unwrap_or(usage.cpu_micros);
        usage.peak_memory_bytes =
            group.and_then(ExecutionGroup::peak_memory_bytes).unwrap_or(usage.peak_memory_bytes);
        let out_of_memory = || group.is_some_and(ExecutionGroup::ran_out_of_memory);
        let outcome = match end {
            End::Itself(Some(Exit { status: Status::Signaled(9), .. })) if out_of_memory() => {
                Outcome::OutOfMemory(wire::OutOfMemory { limit_bytes: self.spec.memory_bytes })
            }
            End::Itself(Some(Exit { status: Status::Exited(code), .. })) => Outcome::Exited(code.into()),
            End::Itself(Some(Exit { status: Status::Signaled(signal), .. })) => {
                Outcome::Signaled(signal.into())
            }
            End::Timeout(limit) => {
                Outcome::TimedOut(wire::TimedOut { limit_millis: limit.as_millis() as u64 })
            }
            End::HostGone | End::Itself(None) => Outcome::Cancelled(wire::Cancelled {}),
        };
        let diagnosis = self.diagnosis(&outcome, out_of_memory, &stdout, &stderr);
        wire::ExecuteResult {
            outcome: Some(outcome),
            stdout: Some(stdout),
            stderr: Some(stderr),
            usage: Some(usage),
            diagnosis,
            interpreter: self.interpreter.into(),
        }
    }

    /// What its own words say about its failure. A time limit and a memory limit need no words.
    fn diagnosis(
        &self,
        outcome: &Outcome,
        out_of_memory: impl Fn() -> bool,
        stdout: &wire::CollectedOutput,
        stderr: &wire::CollectedOutput,
    ) -> Option<wire::Diagnosis> {
        let code = match outcome {
            Outcome::Exited(code) => Some(*code as u8),
            Outcome::Signaled(_) => None,
            Outcome::TimedOut(_) | Outcome::OutOfMemory(_) | Outcome::Cancelled(_) => return None,
        };
        diagnose(&Ended {
            language: self.spec.language,
            code,
            out_of_memory: code != Some(0) && out_of_memory(),
            silent: stdout.total_bytes == 0 && stderr.total_bytes == 0,
            // A terminal has but one stream.
            stderr: if self.spec.terminal.is_some() { &stdout.text } else { &stderr.text },
        })
    }

    /// The group, to be given back. A signal sent at this very moment may still hold it; then it goes with that.
    fn into_group(self) -> Option<ExecutionGroup> {
        Arc::into_inner(self.running)?.group
    }

    async fn close_killed(self) {
        if let Some(group) = self.into_group() {
            group.close_killed().await;
        }
    }
}

/// Starts the program of an execution.
fn begin(agent: &Agent, spec: &Spec, group: Option<&ExecutionGroup>) -> io::Result<Claimed> {
    let (ends, own_ends) = stdio::open(spec)?;
    let spawn = || {
        let setup = ChildSetup {
            stdio: own_ends.each_ref().map(AsFd::as_fd),
            terminal: spec.terminal.is_some(),
            cgroup: group.map(ExecutionGroup::dir),
            processes: if agent.cgroups.controllers().pids { 0 } else { u64::from(spec.pids) },
            files: agent.program_files,
            control: &[],
        };
        child::start(spec, &setup).map(|child| (child.pid, child))
    };
    let (child, exit) = agent.reaper.adopt(spawn)?;
    Ok(Claimed { child, exit, ends, own_ends: own_ends.map(Some) })
}

async fn after(timeout: Option<Duration>) {
    match timeout {
        Some(timeout) => tokio::time::sleep(timeout).await,
        None => std::future::pending().await,
    }
}
