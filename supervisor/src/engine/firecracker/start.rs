//! What launching and preparing share: the jail, the process, the control channel.

use std::io::ErrorKind;

use super::api::{Api, ApiError};
use super::control::explain_start;
use super::engine::{Confinement, FirecrackerEngine};
use super::jail::{Entry, Jail};
use super::metrics::Metrics;
use super::vsock::AgentSocket;
use crate::engine::{EngineError, Hardware, MachineHome, Operation, Stopwatch};
use crate::host::process::{Namespaces, Process, ProcessSpec, spawn};

/// A monitor that runs and answers.
#[derive(Debug)]
pub(super) struct Monitor {
    pub(super) process: Process,
    pub(super) api: Api,
    pub(super) agent: AgentSocket,
    pub(super) jail: Jail,
    pub(super) metrics: Metrics,
}

impl Monitor {
    /// What it counted of trouble, and the end of its log and of the guest's console.
    pub(super) fn words(&self) -> String {
        let (trouble, log) = (self.metrics.trouble(), self.process.output().text());
        if trouble.is_empty() { log } else { format!("it counted {trouble}\n{log}") }
    }
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
    let metrics = Metrics::open(&jail, operation)?;
    watch.stage("files");

    let (program, args, directory) = match engine.confinement {
        Confinement::Jailed => (&programs.jailer, jail.jailer_arguments(programs), None),
        Confinement::Bare => (&programs.path, jail.monitor_arguments(), Some(jail.root().to_owned())),
    };
    let process = spawn(ProcessSpec {
        program: program.clone(),
        args,
        directory,
        cgroup: home.cgroup,
        // The jailer becomes that user once the jail is closed.
        run_as: None,
        namespaces: Some(Namespaces { binds: jail.binds.clone() }),
        ..ProcessSpec::default()
    })
    .await
    .map_err(|source| EngineError::Spawn { operation, source })?;
    watch.stage("spawn");

    let api = connect(&process, &jail, operation).await?;
    watch.stage("control");
    Ok(Monitor { process, api, agent, jail, metrics })
}

/// Connects to the control socket as soon as somebody listens on it.
///
/// The socket's file appears a moment before that, so its appearance says nothing. But the monitor logs that
/// it listens, once it does: whenever it has said something, whatever it is, connecting is tried.
async fn connect(process: &Process, jail: &Jail, operation: Operation) -> Result<Api, EngineError> {
    let mut log = process.output().progress();
    loop {
        match Api::connect(jail.socket(jail.api_name())).await {
            Ok(api) => return Ok(api),
            Err(error) if matches!(error.kind(), ErrorKind::NotFound | ErrorKind::ConnectionRefused) => {}
            Err(source) => {
                let error = ApiError::Connect { request: "the first request".into(), source };
                return Err(explain_start(process, operation, error).await);
            }
        }
        tokio::select! {
            () = log.more() => {}
            report = process.wait() => {
                return Err(EngineError::Exited { operation, report, output: process.output().text() });
            }
        }
    }
}
