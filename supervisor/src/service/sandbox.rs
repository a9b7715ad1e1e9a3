//! One sandbox: what it is, where it is in its life, and what it has used. Shared by the calls in it and by its
//! keeper, which alone ends it.
//!
//! ```text
//! running ⇄ paused
//!    └────────┴──▶ ending ──▶ ended (a reason, for ever)
//! ```

mod refusal;
mod view;

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, RwLock, Weak};
use std::time::{Duration, SystemTime};

use tokio::sync::{Notify, mpsc, oneshot, watch};
use tokio::time::Instant;
use tracing::Instrument as _;

use super::change::Asked;
use super::create::AtTimeout;
use super::detached::Jobs;
use super::error::ServiceError;
use super::execute::Executed;
use super::file_watch::Watchers;
use super::history::History;
use super::id::{ExecutionId, SandboxId};
use super::idempotency::Keys;
use super::interpreter::Contexts;
use super::lifetime::Lifetime;
use super::live::LiveCall;
use super::pause::{Transition, TransitionRequest};
use super::timeline::Timeline;
use super::turns::{self, ResultView, Turns};
use crate::agent::{AgentClient, GuestPath};
use crate::config::TemplateName;
use crate::host::cgroup;
use crate::network::{Gate, Grants};
use crate::telemetry::Origin;
use crate::vm::{MachineUsage, Vm};

pub use view::{SandboxLimitsView, SandboxUsage, SandboxView, StartView};

/// Where a sandbox is in its life.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum SandboxState {
    /// It takes calls.
    Running,
    /// Its processors stand still.
    Paused,
    /// It is being ended.
    Ending,
    /// Nothing of it is left but this record.
    Ended,
}

/// Why a sandbox ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum EndReason {
    /// A caller destroyed it.
    Destroyed,
    /// Its time to live was over.
    Expired,
    /// Nobody used it.
    Idle,
    /// The machine needed more memory than the host allows it.
    OutOfMemory,
    /// The agent stopped answering or no longer made sense.
    AgentLost,
    /// The machine died.
    VmLost,
    /// The supervisor was shut down.
    Shutdown,
}

impl EndReason {
    /// Its short name.
    #[must_use]
    pub fn word(self) -> &'static str {
        match self {
            Self::Destroyed => "destroyed",
            Self::Expired => "expired",
            Self::Idle => "idle",
            Self::OutOfMemory => "out_of_memory",
            Self::AgentLost => "agent_lost",
            Self::VmLost => "vm_lost",
            Self::Shutdown => "shutdown",
        }
    }
}

/// How a sandbox came to its end.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct End {
    /// Why.
    pub reason: EndReason,
    /// Why, for people.
    pub message: String,
    /// When.
    pub at: SystemTime,
}

/// What never changes about a sandbox.
#[derive(Debug)]
pub(super) struct SandboxFacts {
    pub id: SandboxId,
    pub tenant: String,
    pub template: TemplateName,
    pub metadata: BTreeMap<String, String>,
    pub limits: SandboxLimitsView,
    pub memory_mib: u64,
    pub created_at: SystemTime,
    /// Anybody who knows its name may connect to its ports.
    pub public_ports: bool,
    /// What programs that serve ports are told that they are called.
    pub host_mask: Option<String>,
    /// Its template and the token of who made it allow root in it.
    pub root: bool,
    /// Where its result is to be.
    pub result_path: Option<GuestPath>,
    /// What is installed in its image, as `name version`.
    pub packages: Arc<[String]>,
    pub start: StartView,
}

/// Transitions that may wait for the keeper; who asks for one more waits before.
const MAX_TRANSITIONS: usize = 4;

/// One sandbox.
#[derive(Debug)]
pub(super) struct Sandbox {
    pub facts: SandboxFacts,
    /// Its machine; another one after a pause that has kept its disk alone.
    machine: RwLock<Arc<Vm>>,
    /// Its network.
    pub gate: Arc<Gate>,
    /// One span per sandbox; what is done in it is logged below it.
    pub span: tracing::Span,
    /// When it was created.
    created: Instant,
    inner: Mutex<Inner>,
    /// Wakes the keeper: a clock was changed, or an end is wanted.
    wake: Notify,
    /// The keeper's.
    transitions: mpsc::Sender<TransitionRequest>,
    ended: watch::Sender<Option<End>>,
    /// Since when its processors stand still.
    frozen: watch::Sender<Option<Instant>>,
}

/// What changes.
#[derive(Debug)]
pub(super) struct Inner {
    pub state: SandboxState,
    pub lifetime: Lifetime,
    /// It is paused, and its memory was given back.
    pub without_memory: bool,
    /// What machines used that it had before.
    pub machines_before: cgroup::Usage,
    /// What happens when its time to live is over.
    pub at_timeout: AtTimeout,
    pub timeline: Timeline,
    pub keys: Keys<Executed>,
    pub usage: SandboxUsage,
    /// Live executions under way, each known as long as its caller keeps it.
    pub live: Vec<Weak<LiveCall>>,
    /// Detached executions.
    pub jobs: Jobs,
    /// Directories that are watched for callers who ask now and then.
    pub watchers: Watchers,
    /// What it has used so far, now and then.
    pub history: History,
    /// Contexts of its code interpreter.
    pub contexts: Contexts,
    /// Its turns, if they are bounded.
    pub turns: Option<Turns>,
    wanted: Option<(EndReason, String)>,
    /// Calls that wait for its end, because they want it.
    pub destroys: Vec<Asked>,
    executions: u64,
}

impl Sandbox {
    /// A running sandbox, and what its keeper is asked.
    pub(super) fn new(
        facts: SandboxFacts,
        vm: Arc<Vm>,
        gate: Arc<Gate>,
        lifetime: Lifetime,
        at_timeout: AtTimeout,
        turns: Option<Turns>,
    ) -> (Self, mpsc::Receiver<TransitionRequest>) {
        let span = tracing::info_span!("sandbox", id = %facts.id, tenant = %facts.tenant);
        let inner = Inner {
            state: SandboxState::Running,
            lifetime,
            without_memory: false,
            machines_before: cgroup::Usage::default(),
            at_timeout,
            timeline: Timeline::default(),
            keys: Keys::default(),
            usage: SandboxUsage::default(),
            live: Vec::new(),
            jobs: Jobs::default(),
            watchers: Watchers::default(),
            history: History::default(),
            contexts: Contexts::default(),
            turns,
            wanted: None,
            destroys: Vec::new(),
            executions: 0,
        };
        let (transitions, asked) = mpsc::channel(MAX_TRANSITIONS);
        let (inner, wake, ended) = (Mutex::new(inner), Notify::new(), watch::channel(None).0);
        let frozen = watch::channel(None).0;
        let created = Instant::now();
        let machine = RwLock::new(vm);
        (Self { facts, machine, gate, span, created, inner, wake, transitions, ended, frozen }, asked)
    }

    /// Its machine. Of a sandbox that is paused without its memory, the one it had.
    pub(super) fn vm(&self) -> Arc<Vm> {
        Arc::clone(&self.machine.read().unwrap_or_else(PoisonError::into_inner))
    }

    /// The agent in its machine.
    pub(super) fn agent(&self) -> AgentClient {
        self.vm().agent().clone()
    }

    /// Gives it another machine. Only the keeper calls this, while no call is under way.
    pub(super) fn set_vm(&self, vm: Arc<Vm>) {
        *self.machine.write().unwrap_or_else(PoisonError::into_inner) = vm;
    }

    /// Serves the network of its machine, until that ends.
    pub(super) fn serve_network(&self) {
        let agent = self.agent();
        let serve = Arc::clone(&self.gate).serve(agent.take_streams(), Arc::clone(agent.meter()));
        tokio::spawn(serve.instrument(self.span.clone()));
    }

    pub(super) fn lock(&self) -> MutexGuard<'_, Inner> {
        self.inner.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// A name for the next execution.
    pub(super) fn next_execution(&self) -> ExecutionId {
        let mut inner = self.lock();
        inner.executions += 1;
        inner.usage.executions += 1;
        ExecutionId(inner.executions)
    }

    /// Asks the keeper for a transition and waits for it. A caller that goes away has asked all the same.
    pub(super) async fn ask(
        &self,
        transition: Transition,
        origin: &Origin,
    ) -> Result<SandboxView, ServiceError> {
        let (reply, answer) = oneshot::channel();
        let request = TransitionRequest { transition, origin: origin.clone(), reply };
        if self.transitions.send(request).await.is_ok()
            && let Ok(answer) = answer.await
        {
            return answer;
        }
        Err(self.over(&self.lock(), false))
    }

    /// Asks the keeper to end it; the first to ask gives the reason.
    pub(super) fn want_end(&self, reason: EndReason, message: impl Into<String>) {
        self.lock().wanted.get_or_insert((reason, message.into()));
        self.wake.notify_one();
    }

    pub(super) fn wanted(&self) -> Option<(EndReason, String)> {
        self.lock().wanted.clone()
    }

    /// Tells the keeper that a clock was changed.
    pub(super) fn wake(&self) {
        self.wake.notify_one();
    }

    pub(super) async fn woken(&self) {
        self.wake.notified().await;
    }

    /// Tells who waits for its programs that they stand still, or that they go on.
    pub(super) fn set_frozen(&self, since: Option<Instant>) {
        self.frozen.send_replace(since);
    }

    /// Since when its processors stand still, and when they go on.
    pub(super) fn frozen(&self) -> watch::Receiver<Option<Instant>> {
        self.frozen.subscribe()
    }

    /// Publishes the end. Only the keeper calls this.
    pub(super) fn publish_end(&self, end: End) {
        {
            let mut inner = self.lock();
            inner.state = SandboxState::Ended;
            inner.watchers.clear();
            inner.contexts = Contexts::default();
        }
        self.ended.send_replace(Some(end));
    }

    /// Waits for the end.
    pub(super) async fn ended(&self) -> End {
        let mut ended = self.ended.subscribe();
        // Copied out at once: what is borrowed must not be held across a wait.
        let end = ended.wait_for(Option::is_some).await.ok().and_then(|end| end.clone());
        match end {
            Some(end) => end,
            // The sender lives in `self`.
            None => std::future::pending().await,
        }
    }

    /// How it ended, if it has.
    pub(super) fn end(&self) -> Option<End> {
        self.ended.borrow().clone()
    }

    /// Brings what the host counts up to date.
    pub(super) async fn refresh(&self) {
        if self.end().is_none() {
            let used = self.vm().usage().await;
            if used != MachineUsage::default() {
                let mut inner = self.lock();
                inner.usage.machine = used.group.after(inner.machines_before);
                inner.usage.disk_bytes = used.disk_bytes;
            }
        }
    }

    /// The sandbox as its tenant sees it now.
    pub(super) fn view(&self) -> SandboxView {
        let (now, wall) = (Instant::now(), SystemTime::now());
        let inner = self.lock();
        let end = self.end();
        let alive = end.is_none();
        let (network, grants) = (self.gate.summary(), self.gate.grants());
        let running = if alive { inner.lifetime.ran(now) } else { inner.usage.running };
        // Counted from the creation unless the host's clock was set, by a second or more: told twice, it is the same.
        let counted = self.facts.created_at + now.saturating_duration_since(self.created);
        let apart = wall.duration_since(counted).unwrap_or_else(|error| error.duration());
        let wall = if apart < Duration::from_secs(1) { counted } else { wall };
        let expires_at = inner
            .lifetime
            .due()
            .filter(|_| inner.state == SandboxState::Running)
            .map(|_| wall + inner.lifetime.left(now));
        SandboxView {
            id: self.facts.id.clone(),
            tenant: self.facts.tenant.clone(),
            template: self.facts.template.clone(),
            state: inner.state,
            without_memory: inner.without_memory,
            end,
            created_at: self.facts.created_at,
            expires_at,
            idle_timeout: inner.lifetime.idle(),
            at_timeout: inner.at_timeout,
            metadata: self.facts.metadata.clone(),
            limits: self.facts.limits,
            usage: SandboxUsage {
                running,
                connections: network.connections,
                connections_denied: network.denied,
                network_requests: self.gate.requests(),
                network_bytes_up: network.up,
                network_bytes_down: network.down,
                gateway_requests: grants.map(Grants::requests).unwrap_or_default(),
                gateway_cost: grants.map(Grants::cost).unwrap_or_default(),
                ..inner.usage
            },
            start: self.facts.start.clone(),
            network: self.gate.policy().name().to_owned(),
            gateway: grants.map(Grants::operations).unwrap_or_default(),
            gateway_budget: grants.and_then(Grants::budget),
            turns: inner.turns.map(Turns::view),
            result: self
                .facts
                .result_path
                .as_ref()
                .map(|path| ResultView { path: turns::shown(path), exists: None }),
        }
    }
}
