//! Creates a sandbox: checks what is asked for, sets quota aside, claims a machine, and hands it to a keeper.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::{Duration, SystemTime};

use tokio::time::Instant;
use tracing::Instrument as _;

use super::authority::{trust_variables, write_authority};
use super::caller::{Caller, Scope};
use super::change::Asked;
use super::error::ServiceError;
use super::events::SandboxEventKind;
use super::history;
use super::id::SandboxId;
use super::idempotency::{Fingerprint, MAX_KEY as MAX_REQUEST_ID, Place};
use super::keeper::{self, Holdings};
use super::lifetime::Lifetime;
use super::program::environment;
use super::registry::{Held, Service};
use super::sandbox::{EndReason, Sandbox, SandboxFacts, SandboxLimitsView, SandboxView, StartView};
use super::timeline::TimelineOutcome;
use super::turns::{Turns, result_path};
use crate::agent::{EnvVar, SandboxLimits};
use crate::config::{Recipe, TemplateName};
use crate::host::cgroup::CpuQuota;
use crate::network::GrantRequest;
use crate::network::gateway::TOKEN_VARIABLE;
use crate::pool::{ClaimError, ClaimRequest, PooledTemplate, StartKind};
use crate::vm::Identity;

/// Bounds on a caller's own words about a sandbox.
const MAX_METADATA: usize = 32;
const MAX_KEY: usize = 64;
const MAX_VALUE: usize = 1024;
/// The least share of a processor a machine can work with.
const MIN_MILLI_CPUS: u32 = 50;
/// The least memory programs can work with.
const MIN_MEMORY: u64 = 4 << 20;
/// The most processes.
const MAX_PIDS: u32 = 32_768;

/// What to create. `None`, and zero where it is a number, mean the server's default.
#[derive(Debug, Clone, Default)]
pub struct CreateSpec {
    /// The template.
    pub template: Option<TemplateName>,
    /// Thousandths of a host processor.
    pub milli_cpus: u32,
    /// Memory of all programs together.
    pub memory_bytes: u64,
    /// Processes and threads.
    pub pids: u32,
    /// Variables every execution sees.
    pub env: BTreeMap<String, String>,
    /// How long it lives.
    pub ttl: Option<Duration>,
    /// How long it may go without a call; zero means for ever.
    pub idle_timeout: Option<Duration>,
    /// The caller's own words.
    pub metadata: BTreeMap<String, String>,
    /// How long to wait for room.
    pub queue: Option<Duration>,
    /// The network policy; empty means none.
    pub network: String,
    /// What it may ask of the gateway: `service/operation`, or `service/*`.
    pub gateway: Vec<String>,
    /// What it may spend there; `None` is the server's own bound.
    pub gateway_budget: Option<u64>,
    /// What happens when its time to live is over.
    pub at_timeout: AtTimeout,
    /// Anybody who knows its name may connect to its ports.
    pub public_ports: bool,
    /// What programs that serve ports are told that they are called, with `${PORT}` for the port.
    pub host_mask: Option<String>,
    /// Executions that may be started in it; 0 means any number.
    pub max_turns: u32,
    /// Where its result is to be; empty means that nobody has said.
    pub result_path: String,
}

/// What happens to a sandbox whose time to live is over.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum AtTimeout {
    /// It ends.
    #[default]
    End,
    /// It is paused without its memory, and has its time again once somebody asks to resume it.
    PauseWithoutMemory,
    /// It is paused, and has its time again once it is resumed.
    Pause {
        /// Whoever uses it resumes it; otherwise it has to be asked for.
        auto_resume: bool,
    },
}

/// Refuses processors and memory that the machines of a template do not have, or that are too few to work with; zero
/// is all there is.
///
/// # Errors
/// What of it is out of bounds.
pub fn check_machine(recipe: &Recipe, milli_cpus: u32, memory_bytes: u64) -> Result<(), ServiceError> {
    ServiceError::bound("milli_cpus", milli_cpus.into(), all_cpus(recipe).into())?;
    if (1..MIN_MILLI_CPUS).contains(&milli_cpus) {
        return Err(ServiceError::invalid(format!("milli_cpus must be at least {MIN_MILLI_CPUS}")));
    }
    check_memory(memory_bytes, all_memory(recipe))
}

/// Refuses memory that is more than there is, or too little for programs; zero is all there is.
pub(super) fn check_memory(memory_bytes: u64, most: u64) -> Result<(), ServiceError> {
    ServiceError::bound("memory_bytes", memory_bytes, most)?;
    if (1..MIN_MEMORY).contains(&memory_bytes) {
        return Err(ServiceError::invalid(format!("memory_bytes must be at least {MIN_MEMORY}")));
    }
    Ok(())
}

fn all_cpus(recipe: &Recipe) -> u32 {
    recipe.vcpus * 1000
}

fn all_memory(recipe: &Recipe) -> u64 {
    u64::from(recipe.memory_mib) << 20
}

impl Service {
    /// Creates a sandbox and returns once it answers. Given up in the middle, it leaves nothing. However often it is
    /// asked for with one `request_id`, there is one sandbox; an empty one names nothing.
    ///
    /// # Errors
    /// See [`ServiceError`].
    pub async fn create(
        &self,
        caller: &Caller,
        spec: CreateSpec,
        request_id: &str,
    ) -> Result<SandboxView, ServiceError> {
        let created = match request_id {
            "" => self.try_create(caller, spec).await,
            id => self.create_once(caller, spec, id).await,
        };
        if let Err(error) = &created {
            self.metrics().rejected(error.word());
        }
        created
    }

    async fn create_once(
        &self,
        caller: &Caller,
        spec: CreateSpec,
        request_id: &str,
    ) -> Result<SandboxView, ServiceError> {
        caller.require(Scope::Create)?;
        ServiceError::bound("the length of request_id", request_id.len() as u64, MAX_REQUEST_ID as u64)?;
        // All of it is ordered, so that the same request reads the same.
        let fingerprint = Fingerprint::of([format!("{spec:?}").as_bytes()]);
        let waiter = match self.place_request(caller, request_id, &fingerprint)? {
            Place::First(slot) => {
                let (service, creator, owner) = (self.clone(), caller.clone(), self.clone());
                let tenant = caller.tenant.clone();
                let work = async move { service.try_create(&creator, spec).await.map(|view| view.id) };
                slot.fill(work, move |settled| owner.settle_request(&tenant, settled))
            }
            Place::Later(waiter) => waiter,
        };
        let id = waiter.wait().await?;
        match self.find(caller, id.as_str(), false) {
            Ok(found) => Ok(found.view().await),
            // It ended so long ago that its record is gone.
            Err(_) => Err(ServiceError::ResultGone),
        }
    }

    async fn try_create(&self, caller: &Caller, spec: CreateSpec) -> Result<SandboxView, ServiceError> {
        let template = spec.template.as_ref().unwrap_or(&self.config().default_template);
        let mut asked =
            Asked::begin(&tracing::Span::current(), &caller.origin, "create", &template.to_string());
        let made = self.make(caller, spec, &mut asked).await;
        if let Err(error) = &made {
            asked.finish(TimelineOutcome::of(error));
        }
        made
    }

    async fn make(
        &self,
        caller: &Caller,
        spec: CreateSpec,
        call: &mut Asked,
    ) -> Result<SandboxView, ServiceError> {
        let arrived = Instant::now();
        caller.require(Scope::Create)?;
        if *self.draining().borrow() {
            return Err(ServiceError::ShuttingDown);
        }
        check_metadata(&spec.metadata)?;
        let mut env = environment(&spec.env)?;
        let network = self.policy(caller, &spec.network)?;
        let asked = GrantRequest { operations: &spec.gateway, budget: spec.gateway_budget };
        let (grants, token) = self.grants(caller, asked)?.unzip();
        if let Some(token) = token {
            // The caller's own variable of this name would be of no use.
            env.retain(|variable| variable.name != TOKEN_VARIABLE.as_bytes());
            env.push(EnvVar { name: TOKEN_VARIABLE.into(), value: token.reveal().to_owned().into() });
        }
        if network.intercepts() {
            trust_variables(&mut env);
        }
        let name = spec.template.clone().unwrap_or_else(|| self.config().default_template.clone());
        let template = self.template(&name)?;
        let limits = self.limits(&spec, &template)?;
        let (ttl, idle) = self.clocks(spec.ttl, spec.idle_timeout)?;
        let wait = self.queue_wait(spec.queue)?;
        let memory_mib = u64::from(template.source.recipe.memory_mib);
        let asked = Held {
            sandboxes: 1,
            milli_cpus: limits.milli_cpus.into(),
            memory_mib,
            disk_mib: template.source.recipe.scratch_mib,
        };
        let root = template.source.recipe.root && caller.root;
        let (turns, result_path) = (Turns::new(spec.max_turns)?, result_path(&spec.result_path)?);
        let packages = Arc::clone(&template.source.image.packages);
        let quota = self.hold(caller, asked)?;
        let id = SandboxId::random().map_err(ServiceError::Random)?;
        let request = ClaimRequest {
            template: name.clone(),
            tenant: (!caller.is_operator()).then(|| caller.tenant.clone()),
            cpu: (spec.milli_cpus != 0).then_some(CpuQuota { millis: limits.milli_cpus }),
            identity: Identity {
                limits: SandboxLimits {
                    // Where nothing is asked for, the machine's own size is the limit.
                    memory_bytes: spec.memory_bytes,
                    pids: limits.pids,
                    upload_bytes: self.config().max_upload_bytes,
                    ..SandboxLimits::default()
                },
                env,
                root,
                ..Identity::default()
            },
            wait,
        };
        let boot = request.clone();
        let lease = self.pool().claim(request).await.map_err(|error| match error {
            ClaimError::UnknownTemplate { .. } => ServiceError::UnknownTemplate { name: name.clone() },
            other => ServiceError::Claim(other),
        })?;
        // Asked again: a shutdown may have begun meanwhile.
        if *self.draining().borrow() {
            lease.vm.end().await;
            return Err(ServiceError::ShuttingDown);
        }
        let now = Instant::now();
        let start = StartView {
            kind: lease.kind,
            queued: lease.queued,
            stages: lease.timings.stages.clone(),
            total: now - arrived,
        };
        let stages = start.stages.iter().map(|stage| (stage.name, stage.took));
        self.metrics().start(kind_word(start.kind), stages);
        let facts = SandboxFacts {
            id,
            tenant: caller.tenant.clone(),
            template: name,
            metadata: spec.metadata,
            limits,
            memory_mib,
            created_at: SystemTime::now(),
            public_ports: spec.public_ports,
            host_mask: spec.host_mask,
            root,
            result_path,
            packages,
            start,
        };
        let (vm, gate) = (Arc::clone(&lease.vm), self.gate(&facts, network, grants));
        if let Some(interception) = gate.interception()
            && let Err(error) = write_authority(vm.agent(), interception).await
        {
            vm.end().await;
            return Err(ServiceError::Agent(error));
        }
        let lifetime = Lifetime::start(now, ttl, idle, self.config().max_pause);
        let (sandbox, transitions) = Sandbox::new(facts, vm, gate, lifetime, spec.at_timeout, turns);
        let sandbox = Arc::new(sandbox);
        tracing::info!(parent: &sandbox.span, template = %sandbox.facts.template, "the sandbox was created");
        self.remember(&sandbox, call.finish(TimelineOutcome::Done));
        sandbox.serve_network();
        self.enter(sandbox.clone());
        let view = sandbox.view();
        self.events().tell(SandboxEventKind::Created, view.clone());
        if let Some(interval) = self.config().usage_interval {
            tokio::spawn(history::keep(sandbox.clone(), interval).instrument(sandbox.span.clone()));
        }
        keeper::keep(self, sandbox.clone(), transitions, Holdings::new(lease, quota, boot));
        // And once it can be found: a shutdown that looked before it could be has not ended it.
        if *self.draining().borrow() {
            sandbox.want_end(EndReason::Shutdown, "the supervisor was shut down");
            sandbox.ended().await;
            return Err(ServiceError::ShuttingDown);
        }
        Ok(view)
    }

    fn template(&self, name: &TemplateName) -> Result<Arc<PooledTemplate>, ServiceError> {
        let found = self.pool().templates().iter().find(|template| template.source.recipe.name == *name);
        found.cloned().ok_or_else(|| ServiceError::UnknownTemplate { name: name.clone() })
    }

    fn limits(
        &self,
        spec: &CreateSpec,
        template: &PooledTemplate,
    ) -> Result<SandboxLimitsView, ServiceError> {
        let recipe = &template.source.recipe;
        check_machine(recipe, spec.milli_cpus, spec.memory_bytes)?;
        ServiceError::bound("pids", spec.pids.into(), MAX_PIDS.into())?;
        let or = |asked: u64, default: u64| if asked == 0 { default } else { asked };
        Ok(SandboxLimitsView {
            milli_cpus: or(spec.milli_cpus.into(), all_cpus(recipe).into()) as u32,
            memory_bytes: or(spec.memory_bytes, all_memory(recipe)),
            pids: or(spec.pids.into(), self.config().pids.into()) as u32,
        })
    }

    /// How long a claim may wait. Bounded, since one that cannot be met may keep others waiting.
    fn queue_wait(&self, asked: Option<Duration>) -> Result<Duration, ServiceError> {
        let most = self.config().max_queue_wait;
        let wait = asked.unwrap_or(self.config().queue_wait.min(most));
        ServiceError::bound_time("queue_timeout", wait, most)?;
        Ok(wait)
    }

    /// The clocks a sandbox starts with.
    fn clocks(
        &self,
        ttl: Option<Duration>,
        idle: Option<Duration>,
    ) -> Result<(Duration, Option<Duration>), ServiceError> {
        let most = self.config().max_ttl;
        let ttl = ttl.unwrap_or(self.config().ttl);
        ServiceError::bound_time("ttl", ttl, most)?;
        ServiceError::more_than_zero("ttl", ttl)?;
        let idle = idle.or(self.config().idle_timeout).filter(|idle| !idle.is_zero());
        ServiceError::bound_time("idle_timeout", idle.unwrap_or_default(), most)?;
        Ok((ttl, idle))
    }
}

/// Where a machine came from, as metrics say it.
fn kind_word(kind: StartKind) -> &'static str {
    match kind {
        StartKind::Parked => "parked",
        StartKind::Prespawned => "prespawned",
        StartKind::Restored => "restored",
    }
}

/// Checks a caller's own words, also those of a filter.
pub(super) fn check_metadata(metadata: &BTreeMap<String, String>) -> Result<(), ServiceError> {
    ServiceError::bound("the number of metadata pairs", metadata.len() as u64, MAX_METADATA as u64)?;
    for (key, value) in metadata {
        if key.is_empty() || key.len() > MAX_KEY || key.chars().any(char::is_control) {
            return Err(ServiceError::invalid(format!("a metadata key has 1 to {MAX_KEY} printable bytes")));
        }
        ServiceError::bound("the length of a metadata value", value.len() as u64, MAX_VALUE as u64)?;
    }
    Ok(())
}
