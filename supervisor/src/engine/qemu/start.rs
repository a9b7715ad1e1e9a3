//! What launching and preparing share: sockets, descriptors, the process, the control channel.
//!
//! Nothing here is a path the monitor opens: the agent's socket listens before the monitor exists, and
//! the control channel is connected from the start, so there is nothing to wait or poll for.

use std::ffi::CString;
use std::fs::{File, OpenOptions};
use std::os::fd::{AsRawFd, OwnedFd};
use std::os::unix::net::{UnixListener, UnixStream as StdStream};
use std::path::{Path, PathBuf};

use tokio::net::UnixStream;

use super::args::{self, Accelerator, Descriptors, MEMORY_PATH, Mode};
use super::control::explain;
use super::engine::QemuEngine;
use super::qmp::Qmp;
use crate::engine::{EngineError, Hardware, MachineHome, Operation, Stopwatch};
use crate::host::open_guard::OpenGrant;
use crate::host::process::{Process, ProcessSpec, spawn};

/// A monitor that runs and answers.
#[derive(Debug)]
pub(super) struct Monitor {
    pub(super) process: Process,
    pub(super) qmp: Qmp,
    pub(super) agent: AgentSocket,
    /// The connection a clone was started with; the first to dial gets it.
    pub(super) line: Option<UnixStream>,
}

/// The socket in the work directory on which the monitor takes connections to the agent.
#[derive(Debug)]
pub(super) struct AgentSocket {
    dir: File,
    path: PathBuf,
}

const AGENT_SOCKET: &str = "agent.sock";
/// One heap for all of the monitor's threads: each of their own would hold memory that no clone needs.
const ENVIRONMENT: [(&str, &str); 1] = [("MALLOC_ARENA_MAX", "1")];

impl AgentSocket {
    /// Starts listening; the listener goes to the monitor.
    fn listen(work_dir: &Path, operation: Operation) -> Result<(Self, UnixListener), EngineError> {
        let failed = |path: &Path| EngineError::file(operation, path);
        let dir = File::open(work_dir).map_err(failed(work_dir))?;
        let socket = Self { path: work_dir.join(AGENT_SOCKET), dir };
        let listener = UnixListener::bind(socket.short_path()).map_err(failed(&socket.path))?;
        Ok((socket, listener))
    }

    pub(super) async fn dial(&self) -> Result<UnixStream, EngineError> {
        UnixStream::connect(self.short_path()).await.map_err(EngineError::file(Operation::Dial, &self.path))
    }

    /// A socket's address holds 107 bytes, a work directory's path may be longer.
    fn short_path(&self) -> PathBuf {
        PathBuf::from(format!("/proc/self/fd/{}", self.dir.as_raw_fd())).join(AGENT_SOCKET)
    }
}

/// What a start needs beside the engine.
pub(super) struct Start<'a> {
    pub(super) operation: Operation,
    pub(super) hardware: &'a Hardware,
    pub(super) home: MachineHome,
    pub(super) mode: Mode<'a>,
    /// What the monitor gets when it asks for its memory file.
    pub(super) memory: Option<OwnedFd>,
    /// Descriptors that `mode` names.
    pub(super) inherit: Vec<OwnedFd>,
}

/// Starts the monitor and greets it.
pub(super) async fn start(
    engine: &QemuEngine,
    start: Start<'_>,
    watch: &mut Stopwatch,
) -> Result<Monitor, EngineError> {
    let Start { operation, hardware, home, mode, memory, mut inherit } = start;
    let failed = |path: &Path| EngineError::file(operation, path);
    let image = File::open(&hardware.image).map_err(failed(&hardware.image))?;
    let scratch = OpenOptions::new()
        .read(true)
        .write(true)
        .open(&hardware.scratch)
        .map_err(failed(&hardware.scratch))?;
    let scratch_look = File::open(&hardware.scratch).map_err(failed(&hardware.scratch))?;
    let (agent, listener) = AgentSocket::listen(&home.work_dir, operation)?;
    let line = if matches!(mode, Mode::Restore) { Some(agent.dial().await?) } else { None };
    let (control, control_child) = connected_pair(operation, &home.work_dir)?;

    let mut grants = Vec::new();
    if let Some(descriptor) = memory {
        grants.push(grant(MEMORY_PATH, descriptor));
    }
    if engine.accelerator == Accelerator::Kvm {
        let path = Path::new("/dev/kvm");
        let device = OpenOptions::new().read(true).write(true).open(path).map_err(failed(path))?;
        grants.push(grant("/dev/kvm", device.into()));
    }
    let fds = Descriptors {
        control: control_child.as_raw_fd(),
        agent: listener.as_raw_fd(),
        image: image.as_raw_fd(),
        scratch: scratch.as_raw_fd(),
        scratch_look: scratch_look.as_raw_fd(),
    };
    let args = args::build(hardware, engine.accelerator, home.io, fds, &mode);
    inherit.extend([
        control_child.into(),
        listener.into(),
        image.into(),
        scratch.into(),
        scratch_look.into(),
    ]);
    watch.stage("files");

    let process = spawn(ProcessSpec {
        program: engine.qemu.path.clone(),
        args,
        environment: &ENVIRONMENT,
        inherit,
        cgroup: home.cgroup,
        run_as: home.run_as,
        open_guard: Some(grants),
        ..ProcessSpec::default()
    })
    .await
    .map_err(|source| EngineError::Spawn { operation, source })?;
    watch.stage("spawn");

    let qmp = match Qmp::connect(control).await {
        Ok(qmp) => qmp,
        Err(error) => return Err(explain(&process, operation, error).await),
    };
    watch.stage("control");
    Ok(Monitor { process, qmp, agent, line })
}

/// A connected pair of sockets: ours for the runtime, the other for the child.
pub(super) fn connected_pair(
    operation: Operation,
    work_dir: &Path,
) -> Result<(UnixStream, StdStream), EngineError> {
    let pair = || {
        let (ours, theirs) = StdStream::pair()?;
        ours.set_nonblocking(true)?;
        Ok((UnixStream::from_std(ours)?, theirs))
    };
    pair().map_err(EngineError::file(operation, work_dir))
}

fn grant(path: &str, descriptor: OwnedFd) -> OpenGrant {
    OpenGrant { path: CString::new(path).expect("a constant without NUL"), descriptor }
}
