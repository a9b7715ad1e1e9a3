//! Executions that run nothing: they do what their words say, with the protocol's rules about output, time,
//! signals and a host that hangs up.

use std::time::{Duration, Instant};

use bytes::Bytes;
use rekindle_protocol::frame;
use rekindle_protocol::limits::{CHUNK_BYTES, DEFAULT_OUTPUT_LIMIT};
use rekindle_protocol::mux::Stream;
use rekindle_protocol::output::Collector;
use rekindle_protocol::wire::execute_result::Outcome;
use rekindle_protocol::wire::{self, ErrorCode, OutputStream, response::Reply};
use tokio::io::{AsyncReadExt, AsyncWriteExt, ReadHalf, WriteHalf};
use tokio::sync::mpsc;
use tokio::time::timeout;

use crate::guest::Guest;
use crate::interpreter;
use crate::reply::{finish, send};
use crate::words::{self, Word};

/// The exit code of a shell that finds no such program.
const NOT_FOUND: u32 = 127;
/// The directory that only root may enter.
const ROOTS_OWN: &[u8] = b"/root";
/// How the program that describes data begins.
const DESCRIBES: &str = "# Describes data in few words";
/// What ends a run of code, and not its context.
const INTERRUPT: u32 = 2;
/// Output of which more than this was printed is kept while its program runs.
const KEPT_FROM: usize = 32 * 1024;
/// What spilled bytes of the streams are called.
const STDOUT: &str = "stdout";
const STDERR: &str = "stderr";
/// A time limit that is none.
const FOREVER: Duration = Duration::from_secs(365 * 24 * 60 * 60);

/// Runs one execution to its end.
pub(crate) async fn execute(guest: &Guest, request: wire::ExecuteRequest, stream: Stream) {
    let Some(program) = &request.program else {
        return finish(stream, Err((ErrorCode::InvalidArgument, "there is no program"))).await;
    };
    if request.user.is_empty() && request.cwd.starts_with(ROOTS_OWN) {
        return finish(stream, Err((ErrorCode::PermissionDenied, "only root may enter this directory")))
            .await;
    }
    let text = words::text(program);
    let is_code = matches!(program, wire::execute_request::Program::Code(_));
    let interprets = is_code && interpreter::is_one(&text);
    // The program that describes data does here what a file of the guest says.
    let describes = is_code && text.starts_with(DESCRIBES);
    let script = if describes { guest.file(".describe") } else { None };
    let todo = words::parse(
        &script.map_or_else(|| text.clone(), |script| String::from_utf8_lossy(&script).into_owned()),
    );
    let (running, mut signals) = guest.begin(text);
    let (reader, mut writer) = tokio::io::split(stream);
    let pid = u32::try_from(running.id).unwrap_or(u32::MAX).saturating_add(100);
    let path = |name| Bytes::from(spilled(running.id, name));
    let started = Reply::Started(wire::Started {
        execution: running.id,
        pid,
        stdout_path: path(STDOUT),
        stderr_path: if request.terminal.is_some() { Bytes::new() } else { path(STDERR) },
    });
    if !request.unannounced && !send(&mut writer, started).await {
        return;
    }
    let (pieces, input) = mpsc::channel(16);
    let live = request.stdin == i32::from(wire::Stdin::Live);
    if request.stdin == i32::from(wire::Stdin::Whole) {
        let _ = pieces.try_send(request.stdin_data.clone());
    }
    let began = Instant::now();
    let limit = match request.timeout_millis {
        0 => FOREVER,
        millis => Duration::from_millis(millis),
    };
    let mut program = Execution::new(guest, &request, writer, input);
    program.id = running.id;
    let (interrupt, interrupts) = mpsc::unbounded_channel();
    let running_words =
        async { if interprets { program.interpret(interrupts).await } else { program.run(todo).await } };
    let signalled = async {
        loop {
            match signals.recv().await {
                Some(INTERRUPT) if interprets => drop(interrupt.send(())),
                Some(signal) => return signal,
                None => std::future::pending().await,
            }
        }
    };
    let outcome = tokio::select! {
        outcome = timeout(limit, running_words) => match outcome {
            Ok(Some(outcome)) => outcome,
            Ok(None) => return,
            Err(_) => Outcome::TimedOut(wire::TimedOut { limit_millis: request.timeout_millis }),
        },
        signal = signalled => Outcome::Signaled(signal),
        // The end of the host's half is the cancellation.
        () = listen(reader, pieces, live) => return,
    };
    let interpreter = match (is_code, request.plain_interpreter) {
        (false, _) => wire::Interpreter::Unspecified,
        (true, true) => wire::Interpreter::Plain,
        (true, false) => wire::Interpreter::Warmed,
    };
    let outcome = guest.manner().exit_code.map_or(outcome, |code| Outcome::Exited(code.into()));
    // Off the record before the answer: a host that has it finds nothing under way.
    let id = running.id;
    drop(running);
    program.end(id, outcome, interpreter, began.elapsed()).await;
}

/// Takes what the host sends until it hangs up.
async fn listen(mut reader: ReadHalf<Stream>, pieces: mpsc::Sender<Bytes>, live: bool) {
    let mut pieces = Some(pieces).filter(|_| live);
    while let Ok(Some(input)) = frame::read::<wire::ExecuteInput>(&mut reader).await {
        if let Some(open) = &pieces {
            // What arrives for a program that no longer reads is dropped.
            let _ = open.send(input.data).await;
        }
        if input.eof {
            pieces = None;
        }
    }
}

pub(crate) struct Execution<'a> {
    guest: &'a Guest,
    id: u64,
    env: &'a [wire::EnvVar],
    /// Whose program it is.
    user: &'a str,
    /// Where its clock starts, and its time zone.
    clock: (u64, &'a str),
    /// The host's number for it.
    label: u64,
    stream: bool,
    writer: WriteHalf<Stream>,
    input: mpsc::Receiver<Bytes>,
    stdout: Output,
    stderr: Output,
}

impl<'a> Execution<'a> {
    fn new(
        guest: &'a Guest,
        request: &'a wire::ExecuteRequest,
        writer: WriteHalf<Stream>,
        input: mpsc::Receiver<Bytes>,
    ) -> Self {
        let limit = match request.output_limit {
            0 => DEFAULT_OUTPUT_LIMIT,
            limit => limit as usize,
        };
        Self {
            guest,
            id: 0,
            env: &request.env,
            user: if request.user.is_empty() { "user" } else { &request.user },
            clock: (request.clock_unix_nanos, &request.timezone),
            label: request.label,
            stream: request.stream,
            writer,
            input,
            stdout: Output::new(limit),
            stderr: Output::new(limit),
        }
    }

    /// How it ended; nothing when the host is gone.
    pub(crate) async fn run(&mut self, todo: Vec<Word>) -> Option<Outcome> {
        for word in todo {
            match word {
                Word::Nothing => {}
                Word::Say { error: false, text } => self.say(OutputStream::Stdout, text.as_bytes()).await?,
                Word::Say { error: true, text } => self.say(OutputStream::Stderr, text.as_bytes()).await?,
                Word::Cat => {
                    while let Some(piece) = self.input.recv().await {
                        self.say(OutputStream::Stdout, &piece).await?;
                    }
                }
                Word::Show(path) => {
                    let content = self.guest.files().content(path.as_bytes());
                    let Ok(content) = content else {
                        self.say(OutputStream::Stderr, b"cat: no such file\n").await?;
                        return Some(Outcome::Exited(1));
                    };
                    self.say(OutputStream::Stdout, &content).await?;
                }
                Word::Write { path, text } => {
                    if self.guest.files().put(path.as_bytes(), text.into(), 0).is_err() {
                        return Some(Outcome::Exited(1));
                    }
                }
                Word::Sleep(millis) => tokio::time::sleep(Duration::from_millis(millis)).await,
                Word::Flood(bytes) => {
                    let mut left = usize::try_from(bytes).unwrap_or(usize::MAX);
                    let piece = vec![b'y'; CHUNK_BYTES];
                    while left > 0 {
                        let now = left.min(piece.len());
                        self.say(OutputStream::Stdout, &piece[..now]).await?;
                        left -= now;
                        // A flood that is not streamed must not keep its thread to itself.
                        tokio::task::yield_now().await;
                    }
                    self.keep();
                }
                Word::Env(name) => match self.variable(&name) {
                    Some(value) => self.say(OutputStream::Stdout, &[&value[..], b"\n"].concat()).await?,
                    None => return Some(Outcome::Exited(1)),
                },
                Word::Connect { host, port, text } => match self.connect(host, port, &text).await {
                    Ok(heard) => self.say(OutputStream::Stdout, &heard).await?,
                    Err(why) => {
                        self.say(OutputStream::Stderr, format!("{why}\n").as_bytes()).await?;
                        return Some(Outcome::Exited(1));
                    }
                },
                Word::Clock => {
                    let (nanos, timezone) = self.clock;
                    self.say(OutputStream::Stdout, format!("{nanos} {timezone}\n").as_bytes()).await?;
                }
                Word::Whoami => {
                    let name = format!("{}\n", self.user);
                    self.say(OutputStream::Stdout, name.as_bytes()).await?;
                }
                Word::Message(json) => self.message(&json).await?,
                Word::Pieces(number) => {
                    let piece = [b"\x1e+", &[b'x'; 4000][..], b"\n"].concat();
                    for _ in 0..number {
                        self.say(OutputStream::Stdout, &piece).await?;
                    }
                }
                Word::Hostname => {
                    let name = format!("{}\n", self.guest.sandbox().hostname);
                    self.say(OutputStream::Stdout, name.as_bytes()).await?;
                }
                Word::OutOfMemory => {
                    return Some(Outcome::OutOfMemory(wire::OutOfMemory { limit_bytes: 0 }));
                }
                Word::Kill(signal) => return Some(Outcome::Signaled(signal)),
                Word::Fail(code) => return Some(Outcome::Exited(code.into())),
                Word::Unknown(word) => {
                    self.say(OutputStream::Stderr, format!("{word}: not found\n").as_bytes()).await?;
                    return Some(Outcome::Exited(NOT_FOUND));
                }
            }
        }
        Some(Outcome::Exited(0))
    }

    /// Keeps what was printed so far, once there is much of it.
    fn keep(&self) {
        if self.stdout.kept.len() + self.stderr.kept.len() > KEPT_FROM {
            for (name, output) in [(STDOUT, &self.stdout), (STDERR, &self.stderr)] {
                let path = spilled(self.id, name);
                let _ = self.guest.files().put(path.as_bytes(), output.kept.clone().into(), 0);
            }
        }
    }

    /// More of its input; nothing at its end.
    pub(crate) async fn next_input(&mut self) -> Option<Bytes> {
        self.input.recv().await
    }

    /// What a server outside says to this, or why there is none.
    async fn connect(&self, host: String, port: u16, text: &str) -> Result<Vec<u8>, String> {
        use wire::egress_verdict::Verdict;
        let lost = |_| "lost".to_owned();
        let mut stream = self.guest.open_stream().await.ok_or("there is no host")?;
        let target = Some(wire::egress_request::Target::Name(host));
        let request = wire::EgressRequest { target, port: port.into(), execution: self.label };
        frame::write(&mut stream, &request).await.map_err(lost)?;
        stream.write_all(text.as_bytes()).await.map_err(|_| "lost")?;
        stream.flush().await.map_err(|_| "lost")?;
        let verdict = frame::read::<wire::EgressVerdict>(&mut stream).await.map_err(lost)?;
        match verdict.and_then(|verdict| verdict.verdict) {
            Some(Verdict::Accepted(_)) => {
                stream.shutdown().await.map_err(|_| "lost")?;
                let mut heard = Vec::new();
                stream.read_to_end(&mut heard).await.map_err(|_| "lost")?;
                Ok(heard)
            }
            Some(Verdict::Denied(denied)) => Err(format!("denied: {}", denied.reason)),
            Some(Verdict::Failed(failed)) => Err(format!("failed: {}", failed.message)),
            None => Err("refused".to_owned()),
        }
    }

    /// The execution's own variable, or the sandbox's.
    fn variable(&self, name: &str) -> Option<Bytes> {
        let named = |variable: &&wire::EnvVar| variable.name == name.as_bytes();
        let own = self.env.iter().rev().find(named).map(|variable| variable.value.clone());
        own.or_else(|| self.guest.sandbox().env.iter().rev().find(named).map(|found| found.value.clone()))
    }

    pub(crate) async fn say(&mut self, stream: OutputStream, data: &[u8]) -> Option<()> {
        match stream {
            OutputStream::Stderr => self.stderr.push(data),
            _ => self.stdout.push(data),
        }
        if self.stream && !data.is_empty() {
            let data = Bytes::copy_from_slice(data);
            for start in (0..data.len()).step_by(CHUNK_BYTES) {
                let data = data.slice(start..data.len().min(start + CHUNK_BYTES));
                let output = wire::Output { stream: stream.into(), data };
                send(&mut self.writer, Reply::Output(output)).await.then_some(())?;
            }
        }
        Some(())
    }

    async fn end(mut self, id: u64, outcome: Outcome, interpreter: wire::Interpreter, wall: Duration) {
        let micros = u64::try_from(wall.as_micros()).unwrap_or(u64::MAX);
        let stdout = self.stdout.collect(self.guest, spilled(id, STDOUT));
        let stderr = self.stderr.collect(self.guest, spilled(id, STDERR));
        let stdout = match self.guest.manner().claimed_output {
            Some(claimed) => wire::CollectedOutput {
                truncated: true,
                total_bytes: claimed,
                total_chars: claimed,
                ..stdout
            },
            None => stdout,
        };
        let result = wire::ExecuteResult {
            outcome: Some(outcome),
            stdout: Some(stdout),
            stderr: Some(stderr),
            usage: Some(wire::Usage { wall_micros: micros, cpu_micros: micros, peak_memory_bytes: 1 << 20 }),
            diagnosis: None,
            interpreter: interpreter.into(),
        };
        if send(&mut self.writer, Reply::Result(result)).await {
            let _ = self.writer.shutdown().await;
        }
    }
}

/// Where the bytes of a stream are kept.
fn spilled(id: u64, name: &str) -> String {
    format!("/run/rekindle/output/{id}.{name}")
}

/// One stream of output: the text of the result, and every byte.
struct Output {
    collector: Collector,
    kept: Vec<u8>,
}

impl Output {
    fn new(limit: usize) -> Self {
        Self { collector: Collector::new(limit), kept: Vec::new() }
    }

    fn push(&mut self, data: &[u8]) {
        self.collector.push(data);
        self.kept.extend_from_slice(data);
    }

    /// The text; what was cut is kept as a file of the guest's.
    fn collect(self, guest: &Guest, path: String) -> wire::CollectedOutput {
        let collected = self.collector.finish();
        let spilled_bytes = self.kept.len() as u64;
        let kept = collected.truncated && guest.files().put(path.as_bytes(), self.kept.into(), 0).is_ok();
        wire::CollectedOutput {
            text: collected.text,
            truncated: collected.truncated,
            total_bytes: collected.total_bytes,
            total_chars: collected.total_chars,
            spilled_path: if kept { path.into() } else { Bytes::new() },
            spilled_bytes: if kept { spilled_bytes } else { 0 },
        }
    }
}
