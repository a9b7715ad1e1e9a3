//! What launching and preparing share: the jail, the process, the control channel.

use tokio::time::{Duration, sleep};

use super::api::{Api, ApiError};
use super::control::explain;
use super::engine::FirecrackerEngine;
use super::jail::{Entry, Jail};
use super::vsock::AgentSocket;
use crate::engine::{EngineError, Hardware, MachineHome, Operation, Stopwatch};
use crate::host::appear::Appearance;
use crate::host::process::{Namespaces, Process, ProcessSpec, spawn};

/// Between making a socket and listening on it lie a few microseconds of the monitor.
const LISTEN_DELAY: Duration = Duration::from_millis(1);
const LISTEN_TRIES: u32 = 2_000;

/// A monitor that runs and answers.
#[derive(Debug)]
pub(super) struct Monitor {
    pub(super) process: Process,
    pub(super) api: Api,
    pub(super) agent: AgentSocket,
    pub(super) jail: Jail,
}

/// What a start needs beside the engine.
pub(super) struct Start<'a> {
    pub(super) operation: Operation,
    pub(super) hardware: &'a Hardware,
    pub(super) home: MachineHome,
    /// Files of the verb.
    pub(super) files: &'a [Entry<'a>],
    /// The largest file the monitor will write beside its scratch disk.
    pub(super) writes: u64,
    /// Whether the guest boots, so that its agent's sign has to be waited for.
    pub(super) boots: bool,
}

/// Starts a jailed monitor and connects to it.
pub(super) async fn start(
    engine: &FirecrackerEngine,
    start: Start<'_>,
    watch: &mut Stopwatch,
) -> Result<Monitor, EngineError> {
    let Start { operation, hardware, home, files, writes, boots } = start;
    let Some(user) = home.run_as else {
        return Err(EngineError::refused(operation, "a jailed monitor needs a user of its own"));
    };
    let programs = &engine.firecracker;
    let mut jail = Jail::build(operation, programs, &home.work_dir, user, hardware, files)?;
    jail.allow_file_size(writes);
    let agent = if boots { AgentSocket::booting(&jail, operation)? } else { AgentSocket::listening() };
    let run_dir = jail.run_dir();
    let awaited =
        Appearance::watch(&run_dir, jail.api_name()).map_err(EngineError::file(operation, &run_dir))?;
    watch.lap("files");

    let process = spawn(ProcessSpec {
        program: programs.jailer.clone(),
        args: jail.arguments(programs),
        inherit: Vec::new(),
        cgroup: home.cgroup,
        // The jailer becomes that user once the jail is closed.
        run_as: None,
        open_guard: None,
        namespaces: Some(Namespaces { binds: jail.binds.clone() }),
    })
    .await
    .map_err(|source| EngineError::Spawn { operation, source })?;
    watch.lap("spawn");

    tokio::select! {
        appeared = awaited.wait() => appeared.map_err(EngineError::file(operation, &run_dir))?,
        report = process.wait() => {
            return Err(EngineError::Exited { operation, report, output: process.output().text() });
        }
    }
    let api = match connect(&jail).await {
        Ok(api) => api,
        Err(error) => return Err(explain(&process, operation, error).await),
    };
    watch.lap("control");
    Ok(Monitor { process, api, agent, jail })
}

/// Connects to a socket that is there and may not listen yet.
async fn connect(jail: &Jail) -> Result<Api, ApiError> {
    let mut tries = 0;
    loop {
        match Api::connect(jail.socket(jail.api_name())).await {
            Ok(api) => return Ok(api),
            Err(error) if error.kind() == std::io::ErrorKind::ConnectionRefused && tries < LISTEN_TRIES => {
                tries += 1;
                sleep(LISTEN_DELAY).await;
            }
            Err(source) => return Err(ApiError::Connect { request: "the first request".into(), source }),
        }
    }
}
