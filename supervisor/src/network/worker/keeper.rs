//! Starts the worker, tells it what it needs to know, and starts another when it ends.
//!
//! ```text
//! start ──► set up ──► ready ──► orders ──► it ends, or does not answer ──► all that waits is refused ──► start
//! ```

use std::ffi::OsString;
use std::fs::File;
use std::io;
use std::os::fd::{AsRawFd as _, OwnedFd};
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering::Relaxed};
use std::time::Duration;

use prometheus_client::metrics::counter::Counter;
use tokio::net::UnixStream;
use tokio::sync::{mpsc, oneshot, watch};
use tokio::time::{Instant, sleep, timeout};
use tokio_util::task::TaskTracker;
use tokio_util::task::task_tracker::TaskTrackerToken;

use super::control::Control;
use super::order::{Answer, Order};
use super::running::{Over, RunningWorker, late};
use super::user;
use crate::host::process::{ProcessSpec, SpawnError, spawn};
use crate::network::cassette::CassetteError;
use crate::network::egress::Egress;
use crate::network::gateway::{Gateway, Grants};
use crate::network::intercept::Interception;
use crate::network::policy::Policy;
use crate::network::traffic::Spent;

/// How long a worker may take to start.
const START: Duration = Duration::from_secs(30);
/// How long nothing is started after a worker has ended, at least and at most.
const PAUSE: (Duration, Duration) = (Duration::from_millis(20), Duration::from_secs(5));
/// How long one has to live for the next to be started after the shortest pause.
const LONG_LIFE: Duration = Duration::from_secs(10);
/// How long the last words of a dead worker are waited for: what it has spent.
const LAST_WORDS: Duration = Duration::from_secs(1);
/// Largest answer of a worker.
const MAX_ANSWER: usize = 1024;

/// How a worker is started.
#[derive(Debug, Clone)]
pub struct WorkerOptions {
    /// This very program: it is started with `network-worker`.
    pub program: PathBuf,
    /// Counts the workers that had to be replaced.
    pub restarts: Counter,
}

impl WorkerOptions {
    /// The program that runs this.
    #[must_use]
    pub fn this_program(restarts: Counter) -> Self {
        Self { program: PathBuf::from("/proc/self/exe"), restarts }
    }
}

/// Why there is no worker.
#[derive(Debug, thiserror::Error)]
pub enum WorkerError {
    /// Its program cannot be opened.
    #[error("the program of the network's worker cannot be opened")]
    Program(#[source] io::Error),
    /// No channel to it.
    #[error("no channel to the network's worker")]
    Channel(#[source] io::Error),
    /// It has no way to the cassettes.
    #[error("the cassettes cannot be opened to the network's worker")]
    Cassettes(#[source] CassetteError),
    /// It cannot be started.
    #[error(
        "the network's worker cannot be started\nhint: as root the supervisor becomes another user for it, which takes CAP_SETUID and CAP_SETGID"
    )]
    Start(#[source] SpawnError),
    /// It was started, and is not ready.
    #[error("the network's worker did not become ready: {said}")]
    Silent {
        /// Its last words.
        said: String,
    },
}

/// What the worker has to know of a sandbox's network.
#[derive(Debug, Clone)]
pub(in crate::network) struct GateSource {
    pub(in crate::network) policy: Arc<watch::Sender<Arc<Policy>>>,
    pub(in crate::network) spent: Arc<Spent>,
    pub(in crate::network) grants: Option<Arc<Grants>>,
    pub(in crate::network) interception: Option<Arc<Interception>>,
}

impl GateSource {
    pub(super) fn policy(&self) -> Policy {
        Policy::clone(&self.policy.borrow())
    }
}

/// Something for the worker.
pub(super) enum Wish {
    Stream { gate: u64, source: GateSource, socket: OwnedFd },
    Policy { gate: u64, source: GateSource, done: oneshot::Sender<()> },
    Cut { gate: u64 },
    Forget { gate: u64 },
    Distrust { nonsense: String },
}

/// The worker of a host. It ends when nobody holds this any more.
#[derive(Debug, Clone)]
pub struct Worker {
    wishes: mpsc::UnboundedSender<Wish>,
    shared: Arc<Shared>,
}

#[derive(Debug, Default)]
struct Shared {
    gates: AtomicU64,
    /// Every connection that a worker serves has a token of it. Always closed, so that their end can be waited for.
    places: TaskTracker,
    /// The process that runs; 0 where none does.
    pid: AtomicU32,
}

impl Worker {
    /// Starts it.
    ///
    /// # Errors
    /// See [`WorkerError`].
    pub async fn start(
        options: WorkerOptions,
        egress: &Egress,
        gateway: &Gateway,
    ) -> Result<Self, WorkerError> {
        let (worker, keeper) = Self::new(options, egress, gateway);
        let running = keeper.start().await?;
        tokio::spawn(keeper.keep(Ok(running), None));
        Ok(worker)
    }

    /// One that is started with the first connection.
    #[must_use]
    pub fn when_needed(options: WorkerOptions, egress: &Egress, gateway: &Gateway) -> Self {
        let (worker, keeper) = Self::new(options, egress, gateway);
        tokio::spawn(keeper.keep_when_needed());
        worker
    }

    fn new(options: WorkerOptions, egress: &Egress, gateway: &Gateway) -> (Self, Keeper) {
        let (sender, wishes) = mpsc::unbounded_channel();
        let shared = Arc::new(Shared::default());
        shared.places.close();
        let (egress, gateway) = (egress.clone(), gateway.clone());
        let keeper = Keeper { options, egress, gateway, wishes, shared: Arc::clone(&shared) };
        (Self { wishes: sender, shared }, keeper)
    }

    /// The process that runs, if one does.
    #[must_use]
    pub fn pid(&self) -> Option<u32> {
        Some(self.shared.pid.load(Relaxed)).filter(|pid| *pid != 0)
    }
}

/// The way of one sandbox's connections to the worker, which forgets the sandbox with this.
#[derive(Debug)]
pub(in crate::network) struct Via {
    worker: Worker,
    gate: u64,
}

impl Via {
    pub(in crate::network) fn new(worker: &Worker) -> Self {
        Self { worker: worker.clone(), gate: worker.shared.gates.fetch_add(1, Relaxed) }
    }

    /// Hands over the worker's end of a connection's socket. What is returned is held as long as that lasts.
    pub(super) fn hand_over(&self, source: GateSource, socket: UnixStream) -> Option<TaskTrackerToken> {
        let place = self.worker.shared.places.token();
        let socket = OwnedFd::from(socket.into_std().ok()?);
        self.worker.wishes.send(Wish::Stream { gate: self.gate, source, socket }).ok()?;
        Some(place)
    }

    /// Has the worker end all connections that there are, also those in which it waits for a server.
    pub(in crate::network) fn cut(&self) {
        let _ = self.worker.wishes.send(Wish::Cut { gate: self.gate });
    }

    /// Has the worker replaced, which says what none of ours does.
    pub(super) fn distrust(&self, nonsense: String) {
        let _ = self.worker.wishes.send(Wish::Distrust { nonsense });
    }

    /// Completes when the worker has the policy in force, or is no more.
    pub(in crate::network) async fn enforce(&self, source: GateSource) {
        let (done, enforced) = oneshot::channel();
        if self.worker.wishes.send(Wish::Policy { gate: self.gate, source, done }).is_ok() {
            let _ = enforced.await;
        }
    }
}

impl Drop for Via {
    fn drop(&mut self) {
        let _ = self.worker.wishes.send(Wish::Forget { gate: self.gate });
    }
}

struct Keeper {
    options: WorkerOptions,
    egress: Egress,
    gateway: Gateway,
    wishes: mpsc::UnboundedReceiver<Wish>,
    shared: Arc<Shared>,
}

impl Keeper {
    /// Starts the first worker with the first connection.
    async fn keep_when_needed(mut self) {
        while let Some(wish) = self.wishes.recv().await {
            if matches!(wish, Wish::Stream { .. }) {
                let started = self.start().await;
                return self.keep(started, Some(wish)).await;
            }
        }
    }

    async fn keep(mut self, mut started: Result<RunningWorker, WorkerError>, mut first: Option<Wish>) {
        let mut pause = PAUSE.0;
        loop {
            let begun = Instant::now();
            match started {
                Ok(mut running) => {
                    let over = self.serve(&mut running, first.take()).await;
                    running.process.kill().await;
                    self.shared.pid.store(0, Relaxed);
                    if matches!(over, Over::Unneeded) {
                        return;
                    }
                    let said = running.process.output().text();
                    tracing::error!(
                        reason = &over as &dyn std::error::Error,
                        said,
                        "the network's worker ended: connections are cut, and denied until there is another"
                    );
                }
                Err(error) => {
                    // What waits for it is reset.
                    first = None;
                    tracing::error!(
                        error = &error as &dyn std::error::Error,
                        "the network has no worker: connections are denied"
                    );
                }
            }
            self.options.restarts.inc();
            pause = if begun.elapsed() > LONG_LIFE { PAUSE.0 } else { (pause * 2).min(PAUSE.1) };
            if !self.refuse(pause).await {
                return;
            }
            started = self.start().await;
        }
    }

    async fn start(&self) -> Result<RunningWorker, WorkerError> {
        let (trusted, cassettes) =
            self.egress.hand_over(user::group()).map_err(WorkerError::Cassettes)?.unzip();
        let (ours, theirs) = UnixStream::pair().map_err(WorkerError::Channel)?;
        let theirs = OwnedFd::from(theirs.into_std().map_err(WorkerError::Channel)?);
        let args = ["network-worker".to_owned(), format!("--control={}", theirs.as_raw_fd())];
        // Opened here, so that the user that it becomes needs no way to it.
        let program = File::open(&self.options.program).map_err(WorkerError::Program)?;
        let spec = ProcessSpec {
            program: format!("/proc/self/fd/{}", program.as_raw_fd()).into(),
            args: args.map(OsString::from).to_vec(),
            inherit: vec![theirs],
            run_as: user::choose(),
            ..ProcessSpec::default()
        };
        let process = spawn(spec).await.map_err(WorkerError::Start)?;
        drop(program);
        // Before they are read, so that a change in between is told again.
        let secrets = self.gateway.changes();
        let mut control = Control::new(ours, MAX_ANSWER);
        let hosts = self.egress.dialer.hosts().iter().map(|(name, address)| (name.clone(), *address));
        let setup = Order::Setup { hosts: hosts.collect(), gateway: self.gateway.hand_over(), trusted };
        let ready = async {
            control.send(&setup, cassettes).await?;
            control.receive::<Answer>().await
        };
        match timeout(START, ready).await {
            Ok(Ok(Answer::Ready)) => {}
            _ => {
                process.kill().await;
                return Err(WorkerError::Silent { said: process.output().text() });
            }
        }
        self.shared.pid.store(process.identity().pid, Relaxed);
        Ok(RunningWorker::new(process, control, secrets))
    }

    /// Passes on what is wished for until the worker is over.
    async fn serve(&mut self, running: &mut RunningWorker, first: Option<Wish>) -> Over {
        if let Some(wish) = first
            && let Err(over) = running.follow(wish).await
        {
            return over;
        }
        loop {
            let overdue = running.overdue();
            let done = tokio::select! {
                wish = self.wishes.recv() => match wish {
                    Some(wish) => running.follow(wish).await,
                    None => Err(Over::Unneeded),
                },
                answer = running.control.receive() => running.answered(answer),
                Ok(()) = running.secrets.changed() => {
                    let secrets = self.gateway.secrets();
                    running.say(&Order::Secrets { secrets }, None).await
                }
                () = late(overdue) => Err(Over::Late),
            };
            if let Err(over) = done {
                return over;
            }
        }
    }

    /// Refuses connections for a while, and until all is heard that the last worker has told. False when nobody needs
    /// another.
    async fn refuse(&mut self, pause: Duration) -> bool {
        let shared = Arc::clone(&self.shared);
        let over = async { tokio::join!(sleep(pause), timeout(LAST_WORDS, shared.places.wait())) };
        tokio::pin!(over);
        loop {
            tokio::select! {
                // What comes with it is closed: a connection is reset, and a policy has nobody to be told to.
                wish = self.wishes.recv() => match wish {
                    Some(_) => {}
                    None => return false,
                },
                _ = &mut over => return true,
            }
        }
    }
}
