//! `rekindle run`: one sandbox, one program, its output, nothing left.

use std::io::{Read as _, Write as _};
use std::path::{Path, PathBuf};

use anyhow::{Context, bail};
use bytes::Bytes;
use rekindle::agent::{
    AgentError, Code, Command, Diagnosis, EnvVar, Event, ExecuteRequest, Finished, GuestPath, Interpreter,
    Language, Outcome, Output, OutputStream, Program, SandboxLimits, Stdin, StdinWriter, TransferPatience,
    UploadOptions, Usage,
};
use rekindle::vm::{self, Death, Identity, Lost, Vm};
use serde::Serialize;
use tokio::signal::unix::{SignalKind, signal};
use tokio::sync::mpsc;

use super::args::RunOptions;
use super::failure;
use super::remote::quantity;
use super::setup::Setup;
use super::stages::{Breakdown, StageClock};

/// Exit codes a shell user knows, for ends that are no exit code.
const TIMED_OUT: u8 = 124;
const OUT_OF_MEMORY: u8 = 137;
const SIGNAL_BASE: u8 = 128;

/// Largest file `--get` brings out.
const MAX_GET_BYTES: u64 = 64 * 1024 * 1024 * 1024;
/// Processes of a sandbox: a fork bomb ends here instead of at the guest's own limit.
const SANDBOX_PIDS: u32 = 512;
/// Pieces in which standard input is forwarded.
const STDIN_PIECE: usize = 64 * 1024;

/// How a run ended, the ends only the host can see included.
#[derive(Debug, Clone, Serialize)]
#[serde(tag = "kind", rename_all = "snake_case")]
enum End {
    Exited { code: u8 },
    Signaled { signal: u8 },
    TimedOut,
    OutOfMemory,
    Cancelled,
    AgentLost { message: String },
    VmLost { message: String },
}

/// What `--json` prints.
#[derive(Debug, Serialize)]
struct Report<'a> {
    outcome: End,
    stdout: Option<&'a Output>,
    stderr: Option<&'a Output>,
    usage: Option<&'a Usage>,
    #[serde(skip_serializing_if = "Option::is_none")]
    diagnosis: Option<&'a Diagnosis>,
    #[serde(skip_serializing_if = "Option::is_none")]
    interpreter: Option<Interpreter>,
    template: &'a str,
    engine: String,
    machine: rekindle::host::cgroup::Usage,
    timings: Breakdown,
}

/// Runs the command.
pub async fn run(options: RunOptions) -> anyhow::Result<u8> {
    let mut stages = StageClock::start();
    let request = request(&options)?;
    let uploads = uploads(&options)?;
    let setup = Setup::open(&options.machine)?;
    let source = setup.source(&options.template)?;
    let most = u64::from(source.recipe.memory_mib) << 20;
    if let Some(asked) = options.memory.filter(|asked| *asked > most) {
        let (asked, most, name) = (quantity::size(asked), quantity::size(most), &options.template);
        bail!(
            "--memory of {asked} is more than the machines of {name} have, {most}\n\
             hint: leave it out, or use a template with more memory_mib"
        );
    }
    stages.stage("setup");
    let limits = SandboxLimits {
        memory_bytes: options.memory.unwrap_or(0),
        pids: SANDBOX_PIDS,
        ..SandboxLimits::default()
    };
    let identity = Identity { limits, mount_scratch: options.cold, ..Identity::default() };
    // Held while the machine runs: a snapshot in use is not removed.
    let mut snapshot = None;
    let mut plan = source.plan();
    plan.cpu = options.cpus;
    let vm = if options.cold {
        source
            .cold_boot(&setup.host, plan, &identity, None)
            .await
            .context("the sandbox could not be booted")?
    } else {
        let snapshot = snapshot.insert(setup.snapshot(&source).await?);
        stages.stage("snapshot");
        vm::restore_clone(&setup.host, snapshot, &plan, &identity)
            .await
            .context("the sandbox could not be restored")?
    };
    stages.take(vm.timings());
    // A file that cannot be brought out must not cost the program's output.
    let mut fetched = Ok(());
    let ended = tokio::select! {
        ended = async {
            let finished = use_sandbox(&vm, request, uploads, &mut stages).await?;
            fetched = fetch_all(&vm, &options, &mut stages).await;
            Ok(finished)
        } => ended,
        code = interrupted() => {
            vm.stop().await;
            return Ok(code);
        }
    };
    let machine = vm.usage().await;
    let (end, finished) = match ended {
        Ok(finished) => (finished.outcome.into(), Some(finished)),
        Err(error) => match lost(&vm, &error).await {
            Some(end) => (end, None),
            None => {
                vm.stop().await;
                return Err(error);
            }
        },
    };
    vm.stop().await;
    stages.stage("destroy");
    let code = exit_code(&end);
    if options.json {
        let report = Report {
            outcome: end,
            stdout: finished.as_ref().map(|finished| &finished.stdout),
            stderr: finished.as_ref().map(|finished| &finished.stderr),
            usage: finished.as_ref().map(|finished| &finished.usage),
            diagnosis: finished.as_ref().and_then(|finished| finished.diagnosis.as_ref()),
            interpreter: finished.as_ref().and_then(|finished| finished.interpreter),
            template: options.template.as_str(),
            engine: setup.decision.engine.to_string(),
            machine,
            timings: stages.finish(),
        };
        println!("{}", serde_json::to_string_pretty(&report)?);
    } else {
        print(&options, &end, finished.as_ref())?;
    }
    fetched.map(|()| code)
}

/// Everything between restore and destroy.
async fn use_sandbox(
    vm: &Vm,
    request: ExecuteRequest,
    uploads: Vec<(PathBuf, GuestPath, u32)>,
    stages: &mut StageClock,
) -> anyhow::Result<Finished> {
    let agent = vm.agent();
    for (local, guest, mode) in &uploads {
        let file =
            tokio::fs::File::open(local).await.with_context(|| format!("cannot open {}", local.display()))?;
        let facts = file.metadata().await.ok().filter(std::fs::Metadata::is_file);
        let size = facts.map(|facts| facts.len());
        let options = UploadOptions { mode: *mode, size, ..UploadOptions::default() };
        agent
            .upload(guest, options, file, TransferPatience::default())
            .await
            .with_context(|| format!("{} could not be copied to {guest}", local.display()))?;
    }
    if !uploads.is_empty() {
        stages.stage("put");
    }
    let mut execution = agent.execute(request).await.map_err(failure::not_started)?;
    if let Some(stdin) = execution.take_stdin() {
        tokio::spawn(forward_stdin(stdin));
    }
    let finished = loop {
        match execution.next().await? {
            Some(Event::Output { stream, data }) => write_live(stream, &data)?,
            Some(Event::Finished(finished)) => break *finished,
            None => bail!("the agent ended the execution without a result"),
        }
    };
    stages.stage("execute");
    Ok(finished)
}

/// Copies out what was asked for, everything that can be even when something cannot.
async fn fetch_all(vm: &Vm, options: &RunOptions, stages: &mut StageClock) -> anyhow::Result<()> {
    let mut outcome = Ok(());
    for (guest, local) in &options.get {
        outcome = outcome.and(fetch(vm, guest, local).await);
    }
    if !options.get.is_empty() {
        stages.stage("get");
    }
    outcome
}

/// Copies one file out: beside its place first, so that a failure leaves what was there.
async fn fetch(vm: &Vm, guest: &GuestPath, local: &Path) -> anyhow::Result<()> {
    let dir = local.parent().filter(|dir| !dir.as_os_str().is_empty()).unwrap_or(Path::new("."));
    let aside =
        tempfile::NamedTempFile::new_in(dir).with_context(|| format!("cannot write to {}", dir.display()))?;
    let file = tokio::fs::File::from_std(aside.reopen()?);
    vm.agent()
        .download(guest, MAX_GET_BYTES, file, TransferPatience::default())
        .await
        .with_context(|| format!("{guest} could not be copied to {}", local.display()))?;
    aside.persist(local).with_context(|| format!("cannot write {}", local.display()))?;
    Ok(())
}

/// Hands our own standard input on. It is read on a thread that nobody waits for: a read from a pipe that
/// stays open has no end.
async fn forward_stdin(mut stdin: StdinWriter) {
    let (pieces, mut read) = mpsc::channel(1);
    std::thread::spawn(move || {
        let mut input = std::io::stdin().lock();
        let mut piece = vec![0; STDIN_PIECE];
        while let Ok(n @ 1..) = input.read(&mut piece) {
            if pieces.blocking_send(Bytes::copy_from_slice(&piece[..n])).is_err() {
                return;
            }
        }
    });
    while let Some(piece) = read.recv().await {
        if stdin.send(piece).await.is_err() {
            return;
        }
    }
    stdin.eof();
}

fn write_live(stream: OutputStream, data: &[u8]) -> std::io::Result<()> {
    match stream {
        OutputStream::Stdout => {
            let mut out = std::io::stdout().lock();
            out.write_all(data)?;
            out.flush()
        }
        OutputStream::Stderr => std::io::stderr().lock().write_all(data),
    }
}

/// Completes with an exit code when the person at the terminal, or a manager of processes, wants an end.
async fn interrupted() -> u8 {
    let (Ok(mut interrupt), Ok(mut terminate)) =
        (signal(SignalKind::interrupt()), signal(SignalKind::terminate()))
    else {
        return std::future::pending().await;
    };
    tokio::select! {
        _ = interrupt.recv() => SIGNAL_BASE + 2,
        _ = terminate.recv() => SIGNAL_BASE + 15,
    }
}

/// An end that only the host can see, if the failure is one.
async fn lost(vm: &Vm, error: &anyhow::Error) -> Option<End> {
    let cause = error.chain().find_map(|cause| cause.downcast_ref::<AgentError>())?;
    Some(match vm.blame(cause).await? {
        Lost::Agent => End::AgentLost { message: cause.to_string() },
        Lost::Vm(Death::Lost { report, out_of_memory: true, .. }) => {
            End::VmLost { message: format!("the machine ran into its memory limit on the host and {report}") }
        }
        Lost::Vm(Death::Lost { report, .. }) => End::VmLost { message: format!("the monitor {report}") },
        Lost::Vm(Death::Stopped) => End::VmLost { message: "the machine was stopped".into() },
    })
}

fn request(options: &RunOptions) -> anyhow::Result<ExecuteRequest> {
    let program = if let Some(source) = &options.python {
        code(Language::Python, source)
    } else if let Some(source) = &options.node {
        code(Language::Node, source)
    } else if let Some(line) = &options.sh {
        Program::Shell(line.clone())
    } else if let Some(file) = &options.file {
        let words = [interpreter(file)?.to_owned(), file_name(file)?];
        Program::Command(Command { argv: words.map(Into::into).into() })
    } else {
        Program::Command(Command { argv: options.argv.iter().map(|word| word.clone().into()).collect() })
    };
    let variable =
        |(name, value): &(String, String)| EnvVar { name: name.clone().into(), value: value.clone().into() };
    Ok(ExecuteRequest {
        program: Some(program),
        env: options.env.iter().map(variable).collect(),
        timeout_millis: u64::try_from(options.timeout.as_millis()).unwrap_or(u64::MAX),
        output_limit: options.output_limit,
        memory_bytes: options.memory.unwrap_or(0),
        stream: options.stream,
        plain_interpreter: options.plain,
        stdin: if stdin_has_something() { Stdin::Live } else { Stdin::Unspecified } as i32,
        ..ExecuteRequest::default()
    })
}

/// A pipe or a file on standard input is meant for the program; a terminal or nothing is not.
fn stdin_has_something() -> bool {
    use rustix::fs::FileType;
    // Not by its name, `/dev/stdin`: not every machine has that.
    let kind = rustix::fs::fstat(std::io::stdin()).map(|facts| FileType::from_raw_mode(facts.st_mode));
    matches!(kind, Ok(FileType::Fifo | FileType::RegularFile | FileType::Socket))
}

fn code(language: Language, source: &str) -> Program {
    Program::Code(Code { language: language as i32, source: source.to_owned() })
}

fn interpreter(file: &Path) -> anyhow::Result<&'static str> {
    match file.extension().and_then(|extension| extension.to_str()) {
        Some("py") => Ok("python3"),
        Some("js" | "mjs" | "cjs") => Ok("node"),
        Some("sh") => Ok("bash"),
        _ => bail!(
            "{} has no extension that names a language\nhint: use .py, .js, .mjs, .cjs or .sh, or --put it and run it with `-- PROGRAM ARG…`",
            file.display()
        ),
    }
}

fn file_name(file: &Path) -> anyhow::Result<String> {
    let name = file.file_name().and_then(|name| name.to_str());
    name.map(str::to_owned).with_context(|| format!("{} is no file name", file.display()))
}

/// Everything that is copied in, checked before a machine is started for it.
fn uploads(options: &RunOptions) -> anyhow::Result<Vec<(PathBuf, GuestPath, u32)>> {
    let mut all: Vec<(PathBuf, GuestPath)> = options.put.clone();
    if let Some(file) = &options.file {
        all.push((file.clone(), GuestPath::new(file_name(file)?.into_bytes())?));
    }
    let mode = |local: &Path| -> anyhow::Result<u32> {
        use std::os::unix::fs::PermissionsExt;
        let metadata =
            std::fs::metadata(local).with_context(|| format!("cannot read {}", local.display()))?;
        if !metadata.is_file() {
            bail!("{} is not a file\nhint: only single files can be copied in", local.display());
        }
        Ok(metadata.permissions().mode() & 0o777)
    };
    all.into_iter().map(|(local, guest)| mode(&local).map(|mode| (local, guest, mode))).collect()
}

fn print(options: &RunOptions, end: &End, finished: Option<&Finished>) -> std::io::Result<()> {
    if let Some(finished) = finished.filter(|_| !options.stream) {
        std::io::stdout().lock().write_all(finished.stdout.text.as_bytes())?;
        std::io::stderr().lock().write_all(finished.stderr.text.as_bytes())?;
        for (name, output) in [("stdout", &finished.stdout), ("stderr", &finished.stderr)] {
            note_cut(name, output);
        }
    }
    match end {
        End::Exited { .. } => {}
        End::Signaled { signal } => eprintln!("rekindle: the program was ended by signal {signal}"),
        End::TimedOut => eprintln!("rekindle: the program ran into its limit of {:?}", options.timeout),
        End::OutOfMemory => eprintln!("rekindle: the program ran out of memory"),
        End::Cancelled => eprintln!("rekindle: the program was cancelled"),
        End::AgentLost { message } => eprintln!("rekindle: the agent in the sandbox was lost: {message}"),
        End::VmLost { message } => eprintln!("rekindle: the sandbox was lost: {message}"),
    }
    Ok(())
}

fn note_cut(name: &str, output: &Output) {
    if output.truncated {
        let shown = output.text.chars().count();
        eprintln!(
            "rekindle: {name} was shortened to {shown} of {} characters; --stream or --output-limit shows more",
            output.total_chars
        );
    }
}

fn exit_code(end: &End) -> u8 {
    match end {
        End::Exited { code } => *code,
        End::Signaled { signal } => SIGNAL_BASE.saturating_add(*signal),
        End::TimedOut => TIMED_OUT,
        End::OutOfMemory => OUT_OF_MEMORY,
        End::Cancelled => SIGNAL_BASE + 2,
        End::AgentLost { .. } | End::VmLost { .. } => super::OWN_FAILURE,
    }
}

impl From<Outcome> for End {
    fn from(outcome: Outcome) -> Self {
        match outcome {
            Outcome::Exited(code) => Self::Exited { code },
            Outcome::Signaled(signal) => Self::Signaled { signal },
            Outcome::TimedOut => Self::TimedOut,
            Outcome::OutOfMemory => Self::OutOfMemory,
            Outcome::Cancelled => Self::Cancelled,
        }
    }
}
