//! The phases of a start as types: each consumes the one before, and a failure unwinds what was made.
//!
//! ```text
//! Reserved ──launch, restore──▶ Running ──connect──▶ Connected ──open_gate──▶ Vm
//!     └─prespawn──▶ Prespawned ──load──▶┘
//! ```

use std::path::PathBuf;
use std::time::Duration;

use super::driver::Driver;
use super::error::StartError;
use super::gate::Identity;
use super::handle::{VERDICT_GRACE, Vm};
use super::host::VmHost;
use super::id::VmId;
use super::limits::limits;
use super::scratch::{self, ScratchPlan};
use super::users::UserLease;
use super::workdir::{Record, WorkDir};
use crate::agent::AgentClient;
use crate::engine::{
    BootSpec, EngineError, Hardware, IoThrottle, Machine, MachineHome, Operation, PrespawnedMonitor,
    RestoreSpec, SnapshotFiles, Started, Stopwatch, Timings,
};
use crate::host::cgroup::{Cgroup, CpuQuota, CpuWeight};
use tokio::time::timeout;

/// What a machine is made of and may use.
#[derive(Debug, Clone)]
pub struct Plan {
    /// Virtual processors.
    pub vcpus: u32,
    /// Memory in mebibytes.
    pub memory_mib: u32,
    /// The root image.
    pub image: PathBuf,
    /// Where its scratch disk comes from.
    pub scratch: ScratchPlan,
    /// A share of the host's processors; `None` gives one host processor per virtual one.
    pub cpu: Option<CpuQuota>,
    /// Whether somebody waits for it, or it is made ahead.
    pub cpu_weight: CpuWeight,
    /// Bound on the scratch disk's traffic.
    pub io: IoThrottle,
    /// How long each phase may take.
    pub deadline: Duration,
}

/// Resources are there, nothing runs.
#[derive(Debug)]
pub struct Reserved {
    id: VmId,
    // Before the directory: whoever is dropped half-way ends the processes first.
    cgroup: Cgroup,
    work_dir: WorkDir,
    hardware: Hardware,
    home: Option<MachineHome>,
    /// How long the guest may take for each answer until it is in use.
    patience: Duration,
    /// Its share of the processors.
    cpu: Option<CpuQuota>,
    timings: Timings,
}

impl Reserved {
    /// Makes a directory, a control group and a scratch disk.
    ///
    /// # Errors
    /// See [`StartError`].
    pub async fn reserve(host: &VmHost, plan: &Plan) -> Result<Self, StartError> {
        let mut watch = Stopwatch::start();
        let id = VmId::random().map_err(StartError::Random)?;
        let path = host.work_dir(id);
        let failed = |operation, path: &std::path::Path| {
            let path = path.to_owned();
            move |source| StartError::File { operation, path, source }
        };
        let work_dir = WorkDir::create(path.clone()).map_err(failed("make", &path))?;
        let limits = limits(host, plan);
        if host.config.require_limits {
            host.config.cgroups.require(&limits).map_err(StartError::Cgroup)?;
        }
        // On record before it exists: a supervisor killed at any moment leaves a trace.
        let record = Record { cgroup: host.config.cgroups.planned(&id.to_string()), process: None };
        work_dir.write_record(&record).map_err(failed("record", &path))?;
        let cgroup = host.config.cgroups.create(&id.to_string(), &limits).map_err(StartError::Cgroup)?;
        if plan.cpu_weight != CpuWeight::default() {
            cgroup.set_cpu_weight(plan.cpu_weight).map_err(StartError::Cgroup)?;
        }
        let join = cgroup.join().map_err(StartError::Cgroup)?;
        let (mut work_dir, scratch) = scratch::make(host, plan.scratch.clone(), work_dir).await?;
        let user = match &host.users {
            Some(users) => Some(users.take(id).ok_or(StartError::NoUser)?),
            None => None,
        };
        let run_as = user.as_ref().map(UserLease::run_as);
        if let Some(user) = user {
            work_dir.keep(user);
        }
        watch.stage("reserve");
        let home =
            MachineHome { work_dir: path, cgroup: Some(join), run_as, io: plan.io, deadline: plan.deadline };
        let hardware =
            Hardware { vcpus: plan.vcpus, memory_mib: plan.memory_mib, image: plan.image.clone(), scratch };
        Ok(Self {
            id,
            work_dir,
            cgroup,
            hardware,
            home: Some(home),
            patience: plan.deadline,
            cpu: limits.cpu,
            timings: watch.finish(),
        })
    }

    /// Gives the guest another time for each answer than the plan's deadline.
    pub(super) fn answering_within(self, patience: Duration) -> Self {
        Self { patience, ..self }
    }

    /// Boots a kernel.
    ///
    /// # Errors
    /// See [`StartError`].
    pub async fn launch(
        mut self,
        host: &VmHost,
        kernel: PathBuf,
        kernel_args: Vec<String>,
        snapshot_dir: Option<PathBuf>,
    ) -> Result<Running, StartError> {
        let Some(home) = self.home.take() else { return Err(self.used_twice()) };
        let spec = BootSpec { hardware: self.hardware.clone(), home, kernel, kernel_args, snapshot_dir };
        let started = host.engine().launch(spec).await;
        self.started(started).await
    }

    /// Restores a snapshot.
    ///
    /// # Errors
    /// See [`StartError`].
    pub async fn restore(mut self, host: &VmHost, snapshot: SnapshotFiles) -> Result<Running, StartError> {
        let Some(home) = self.home.take() else { return Err(self.used_twice()) };
        let spec = RestoreSpec { hardware: self.hardware.clone(), home, snapshot };
        let started = host.engine().restore(spec).await;
        self.started(started).await
    }

    /// Starts a monitor that waits for its snapshot. It is on record before it counts as there.
    ///
    /// # Errors
    /// See [`StartError`].
    pub async fn prespawn(
        mut self,
        host: &VmHost,
        snapshot: SnapshotFiles,
    ) -> Result<Prespawned, StartError> {
        let Some(home) = self.home.take() else { return Err(self.used_twice()) };
        let spec = RestoreSpec { hardware: self.hardware.clone(), home, snapshot };
        let monitor = match host.engine().prespawn(spec).await {
            Ok(monitor) => monitor,
            Err(error) => {
                self.fail().await;
                return Err(StartError::Engine(error));
            }
        };
        let record = Record { cgroup: self.cgroup.record(), process: monitor.process().cloned() };
        let recorded = self.work_dir.write_record(&record);
        let waiting = Prespawned { reserved: self, monitor };
        match recorded {
            Ok(()) => Ok(waiting),
            Err(source) => {
                let path = waiting.reserved.work_dir.path().to_owned();
                waiting.fail().await;
                Err(StartError::File { operation: "record", path, source })
            }
        }
    }

    async fn started(mut self, started: Result<Started, EngineError>) -> Result<Running, StartError> {
        match started {
            Ok(Started { machine, timings }) => {
                self.timings.extend(&timings);
                let record = Record { cgroup: self.cgroup.record(), process: machine.process().cloned() };
                match self.work_dir.write_record(&record) {
                    Ok(()) => Ok(Running { reserved: self, machine }),
                    Err(source) => {
                        let path = self.work_dir.path().to_owned();
                        Running { reserved: self, machine }.fail().await;
                        Err(StartError::File { operation: "record", path, source })
                    }
                }
            }
            Err(error) => {
                self.fail().await;
                Err(StartError::Engine(error))
            }
        }
    }

    fn used_twice(&self) -> StartError {
        StartError::File {
            operation: "use twice",
            path: self.work_dir.path().to_owned(),
            source: std::io::ErrorKind::ResourceBusy.into(),
        }
    }

    /// Gives everything back.
    pub async fn fail(self) {
        release(self.cgroup, self.work_dir).await;
    }
}

/// A monitor waits for its snapshot. That it has died shows when it is loaded.
#[derive(Debug)]
pub struct Prespawned {
    monitor: Box<dyn PrespawnedMonitor>,
    reserved: Reserved,
}

impl Prespawned {
    /// Loads the snapshot and lets the guest run, for somebody who waits for it.
    ///
    /// # Errors
    /// See [`StartError`]; the monitor is gone then, with everything made for it.
    pub async fn load(self) -> Result<Running, StartError> {
        if let Err(error) = self.reserved.cgroup.set_cpu_weight(CpuWeight::InUse) {
            self.fail().await;
            return Err(StartError::Cgroup(error));
        }
        let started = self.monitor.load().await;
        self.reserved.started(started).await
    }

    /// Ends the monitor and gives everything back.
    pub async fn fail(self) {
        drop(self.monitor);
        self.reserved.fail().await;
    }
}

/// The machine runs; whether its agent does is not known yet.
#[derive(Debug)]
pub struct Running {
    // First: it is ended before what it stands on is taken away.
    machine: Box<dyn Machine>,
    reserved: Reserved,
}

impl Running {
    /// The monitor's process, where the engine has one.
    pub(super) fn process_id(&self) -> Option<u32> {
        self.machine.process().map(|process| process.pid)
    }

    /// Dials the agent and greets it.
    ///
    /// # Errors
    /// See [`StartError`].
    pub async fn connect(mut self) -> Result<Connected, StartError> {
        let mut watch = Stopwatch::start();
        let after = self.reserved.patience;
        let late = EngineError::Deadline { operation: Operation::Dial, after };
        let stream = match timeout(after, self.machine.dial()).await.unwrap_or(Err(late)) {
            Ok(stream) => stream,
            Err(error) => {
                tracing::debug!(last_words = self.machine.last_words(), "the agent could not be dialled");
                self.fail().await;
                return Err(StartError::Engine(error));
            }
        };
        watch.stage("dial");
        // A machine that dies while it is waited for is not waited for until the deadline; and of the two ways
        // its death shows, the end of its process says more than the end of its line.
        let connected = tokio::select! {
            connected = AgentClient::connect(stream, after) => match connected {
                Err(error) => timeout(VERDICT_GRACE, self.machine.wait()).await.map_err(|_| error),
                Ok(client) => {
                    watch.stage("hello");
                    self.reserved.timings.extend(&watch.finish());
                    return Ok(Connected { running: self, client });
                }
            },
            report = self.machine.wait() => Ok(report),
        };
        let last_words = self.machine.last_words();
        self.fail().await;
        Err(match connected {
            Ok(report) => {
                let operation = Operation::Dial;
                StartError::Engine(EngineError::Exited { operation, report, output: last_words })
            }
            Err(source) => StartError::Connect { source, last_words },
        })
    }

    /// Ends the machine and gives everything back.
    pub async fn fail(self) {
        self.machine.kill().await;
        self.reserved.fail().await;
    }
}

/// The agent answers; the gate is closed.
#[derive(Debug)]
pub struct Connected {
    running: Running,
    client: AgentClient,
}

impl Connected {
    /// Makes the guest its own machine; from here on callers may use it.
    ///
    /// # Errors
    /// See [`StartError`].
    pub async fn open_gate(mut self, identity: &Identity) -> Result<Vm, StartError> {
        let mut watch = Stopwatch::start();
        let request = match identity.request() {
            Ok(request) => request,
            Err(error) => {
                self.fail().await;
                return Err(StartError::Random(error));
            }
        };
        if let Err(source) = self.client.restore(request, self.running.reserved.patience).await {
            let last_words = self.running.machine.last_words();
            self.fail().await;
            return Err(StartError::Gate { source, last_words });
        }
        watch.stage("gate");
        self.running.reserved.timings.extend(&watch.finish());
        let Self { running: Running { reserved, machine }, client } = self;
        let Reserved { id, work_dir, cgroup, cpu, timings, .. } = reserved;
        if let Some(cpu) = cpu {
            client.meter().set_share(cpu);
        }
        let driver = Driver::start(id, machine, cgroup, work_dir);
        Ok(Vm::new(id, client, driver, timings))
    }

    /// Ends the machine and gives everything back.
    pub async fn fail(self) {
        self.running.fail().await;
    }
}

/// Gives back what is left when the machine itself is gone: group first, files last.
pub(super) async fn release(cgroup: Cgroup, work_dir: WorkDir) {
    if let Err(error) = cgroup.close().await {
        tracing::warn!(%error, "a control group was left behind");
    }
    let path = work_dir.path().to_owned();
    match tokio::task::spawn_blocking(move || work_dir.close()).await {
        Ok(Ok(())) => {}
        Ok(Err(error)) => {
            tracing::warn!(%error, path = %path.display(), "a machine's directory was left behind");
        }
        Err(error) => tracing::warn!(%error, "a machine's directory was left behind"),
    }
}
