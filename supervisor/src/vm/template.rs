//! Builds a template's snapshot: boot, open the gate, warm up, make quiet, freeze, store.
//!
//! ```text
//! boot ──▶ warm up ──▶ ready ──▶ keep warm ──▶ quiesce (the agent hangs up) ──▶ freeze ──▶ publish ──▶ first clone
//!    └── any failure: machine, staging directory and control group are gone again
//! ```

use std::time::Duration;

use tokio::time::timeout;

use super::error::StartError;
use super::gate::{Identity, SCRATCH_DEVICE, ScratchMount};
use super::handle::Vm;
use super::host::VmHost;
use super::kept::KeptDisk;
use super::phases::{Plan, Reserved};
use super::scratch::ScratchPlan;
use super::working_set::{self, First};
use crate::agent::{
    AgentError, Code, Command, EnvVar, ExecuteRequest, Finished, Language as WireLanguage, Outcome, Program,
    WarmPython, WarmRequest,
};
use crate::config::{Language, Recipe, Run, Step, Warm};
use crate::engine::{EngineError, IoThrottle, Timings};
use crate::host::cgroup::CpuWeight;
use crate::store::{
    Artifact, Artifacts, Inputs, Machine, Origin, Snapshot, StagingDir, Store, StoreError, Traffic,
};
use crate::tuning;

/// A template's clock runs so far behind; see [`Identity::clock_behind`].
const CLOCK_BEHIND: Duration = Duration::from_secs(24 * 60 * 60);
/// How long each phase of a boot may take on a slow, busy host.
const BOOT_DEADLINE: Duration = Duration::from_secs(120);
/// How long the interpreters that are kept warm may take to start.
const WARM_DEADLINE: Duration = Duration::from_secs(600);
/// How long the guest may take to become quiet.
const QUIET_DEADLINE: Duration = Duration::from_secs(60);
/// How long a guest takes from its last word to being idle.
const FALLING_ASLEEP: Duration = Duration::from_millis(50);
/// What one machine may ask of the disk: enough for any build, too little to starve its neighbours.
const IO_LIMIT: IoThrottle =
    IoThrottle { bytes_per_second: Some(256 * 1024 * 1024), operations_per_second: Some(20_000) };
/// Characters of a failed step's output that its error shows.
const SHOWN: u32 = 2_000;

/// What a build is doing, for whoever shows progress.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum BuildStep {
    /// The machine boots.
    Boot,
    /// Warm-up step `number` of `total` runs.
    Warmup {
        /// Counted from 1.
        number: usize,
        /// How many there are.
        total: usize,
    },
    /// The readiness check runs.
    Ready,
    /// Interpreters start and are left waiting.
    Warm,
    /// The machine is frozen.
    Freeze,
    /// Memory is hashed and the snapshot published.
    Publish,
    /// A first clone shows what its first program touches.
    WorkingSet,
}

/// A finished build.
#[derive(Debug)]
pub struct BuiltTemplate {
    /// The snapshot, ready for use.
    pub snapshot: Snapshot,
    /// Where the time of the cold boot went, from nothing to an open gate.
    pub boot: Timings,
}

/// Why a template could not be built.
#[derive(Debug, thiserror::Error)]
pub enum BuildError {
    /// A kernel or image is missing, or the store refused.
    #[error(transparent)]
    Store(#[from] StoreError),
    /// The machine did not come to life.
    #[error("the template's machine did not start")]
    Start(#[source] StartError),
    /// A warm-up step or the readiness check could not be run.
    #[error("{step} could not be run")]
    Step {
        /// Which one.
        step: String,
        /// Why.
        #[source]
        source: AgentError,
    },
    /// A warm-up step or the readiness check ran and failed.
    #[error("{step} failed: {outcome:?}\n{output}\nhint: fix the step in the template's recipe")]
    Failed {
        /// Which one.
        step: String,
        /// How it ended.
        outcome: Outcome,
        /// The end of what it printed.
        output: String,
    },
    /// The interpreters to be kept warm did not start.
    #[error("the interpreters that the recipe keeps warm did not start")]
    Warm(#[source] AgentError),
    /// The guest did not become quiet.
    #[error("the guest did not become quiet")]
    Quiesce(#[source] AgentError),
    /// The machine could not be frozen.
    #[error("the machine could not be frozen")]
    Freeze(#[source] EngineError),
}

/// Everything a template's snapshot depends on, as it is now on this host.
#[derive(Debug, Clone)]
pub struct TemplateSource {
    /// The recipe.
    pub recipe: Recipe,
    /// The kernel it boots.
    pub kernel: Artifact,
    /// The image it boots from.
    pub image: Artifact,
}

impl TemplateSource {
    /// Finds the kernel and the image a recipe names, and has the agent leave out what is switched off
    /// ([`tuning`]).
    ///
    /// # Errors
    /// When one of them has not been built.
    pub fn find(mut recipe: Recipe, artifacts: &Artifacts) -> Result<Self, StoreError> {
        recipe.kernel_args.extend(tuning::guest_argument());
        Ok(Self { kernel: artifacts.kernel()?, image: artifacts.image(&recipe.image)?, recipe })
    }

    /// What a snapshot must have been made from to be used by this host.
    #[must_use]
    pub fn inputs(&self, host: &VmHost) -> Inputs {
        let identity = host.engine().identity();
        Inputs {
            origin: Origin {
                engine: identity.engine.to_string(),
                version: identity.version.clone(),
                accelerator: identity.accelerator.clone(),
                cpu: identity.cpu.clone(),
            },
            kernel: self.kernel.sha256.clone(),
            image: self.image.sha256.clone(),
            recipe: self.recipe.digest(),
        }
    }

    /// The plan of a machine of this template, with nothing limited beyond its size and an empty disk.
    #[must_use]
    pub fn plan(&self) -> Plan {
        Plan {
            vcpus: self.recipe.vcpus,
            memory_mib: self.recipe.memory_mib,
            image: self.image.path.clone(),
            scratch: ScratchPlan::Blank { mib: self.recipe.scratch_mib, staging: None },
            cpu: None,
            cpu_weight: CpuWeight::InUse,
            io: IO_LIMIT,
            deadline: BOOT_DEADLINE,
        }
    }

    /// Boots a machine without a snapshot: what a cold start costs. With `staging` it can be frozen there.
    ///
    /// # Errors
    /// See [`StartError`].
    pub async fn cold_boot(
        &self,
        host: &VmHost,
        mut plan: Plan,
        identity: &Identity,
        staging: Option<&StagingDir>,
    ) -> Result<Vm, StartError> {
        plan.scratch = ScratchPlan::Blank { mib: self.recipe.scratch_mib, staging: staging.cloned() };
        let snapshot_dir = staging.map(|staging| staging.path().to_owned());
        let reserved = Reserved::reserve(host, &plan).await?;
        let args = self.recipe.kernel_args.clone();
        let running = reserved.launch(host, self.kernel.path.clone(), args, snapshot_dir).await?;
        running.connect().await?.open_gate(identity).await
    }

    /// Boots a machine with the disk that an earlier one was stopped with. The disk is kept, also when this fails: who
    /// has the machine lets go of it.
    ///
    /// # Errors
    /// See [`StartError`].
    pub async fn boot_again(
        &self,
        host: &VmHost,
        plan: Plan,
        identity: &Identity,
        disk: &KeptDisk,
    ) -> Result<Vm, StartError> {
        let plan = Plan { scratch: ScratchPlan::Kept(disk.path()), ..plan };
        let identity = Identity { scratch: ScratchMount::Kept, ..identity.clone() };
        let reserved = Reserved::reserve(host, &plan).await?;
        let mut args = self.recipe.kernel_args.clone();
        args.push(format!("rekindle.disk={SCRATCH_DEVICE}"));
        let running = reserved.launch(host, self.kernel.path.clone(), args, None).await?;
        running.connect().await?.open_gate(&identity).await
    }

    /// Builds the snapshot and publishes it in `store`.
    ///
    /// # Errors
    /// See [`BuildError`]; nothing is left behind then.
    pub async fn build(
        &self,
        host: &VmHost,
        store: &Store,
        progress: &(dyn Fn(BuildStep) + Sync),
    ) -> Result<BuiltTemplate, BuildError> {
        let staging = store.stage(&self.recipe.name)?;
        progress(BuildStep::Boot);
        let identity = Identity {
            clock_behind: CLOCK_BEHIND,
            scratch: ScratchMount::Blank,
            env: template_environment(),
            ..Identity::default()
        };
        let vm = self
            .cold_boot(host, self.plan(), &identity, Some(staging.dir()))
            .await
            .map_err(BuildError::Start)?;
        let boot = vm.timings().clone();
        let agent = vm.agent().hello().program.clone();
        // From here on a failure drops the machine, which its driver then ends.
        self.warm_up(&vm, progress).await?;
        progress(BuildStep::Freeze);
        vm.agent().quiesce(false, QUIET_DEADLINE).await.map_err(BuildError::Quiesce)?;
        // The agent hangs up once it is quiet; only then does the guest's memory hold no session.
        if timeout(QUIET_DEADLINE, vm.agent().closed()).await.is_err() {
            let silent = AgentError::Silent { operation: "hang up", waited: QUIET_DEADLINE };
            return Err(BuildError::Quiesce(silent));
        }
        tokio::time::sleep(FALLING_ASLEEP).await;
        let silent = vm.hang_up();
        let frozen = silent.freeze().await;
        silent.stop().await;
        frozen.map_err(BuildError::Freeze)?;
        progress(BuildStep::Publish);
        let machine = Machine {
            vcpus: self.recipe.vcpus,
            memory_mib: self.recipe.memory_mib,
            scratch_mib: self.recipe.scratch_mib,
            scratch_traffic: Some(Traffic {
                bytes_per_second: IO_LIMIT.bytes_per_second,
                operations_per_second: IO_LIMIT.operations_per_second,
            }),
        };
        let inputs = self.inputs(host);
        let published = tokio::task::spawn_blocking(move || staging.commit(inputs, machine, &agent)).await;
        let snapshot = match published {
            Ok(snapshot) => snapshot?,
            Err(panic) => std::panic::resume_unwind(panic.into_panic()),
        };
        progress(BuildStep::WorkingSet);
        let first =
            First { python: self.recipe.warm.python_first, program: self.recipe.ready.as_ref().map(request) };
        if let Err(error) = working_set::record(host, &snapshot, &self.plan(), first).await {
            let error = &error as &dyn std::error::Error;
            tracing::warn!(error, "cold restores of the template are slower: its working set is not known");
        }
        Ok(BuiltTemplate { snapshot, boot })
    }

    async fn warm_up(&self, vm: &Vm, progress: &(dyn Fn(BuildStep) + Sync)) -> Result<(), BuildError> {
        let total = self.recipe.warmup.len();
        for (index, step) in self.recipe.warmup.iter().enumerate() {
            let number = index + 1;
            progress(BuildStep::Warmup { number, total });
            run_step(vm, step, format!("warm-up step {number} of {total}")).await?;
        }
        if let Some(step) = &self.recipe.ready {
            progress(BuildStep::Ready);
            run_step(vm, step, "the readiness check".into()).await?;
        }
        self.keep_warm(vm, progress).await
    }

    /// Last, so that nothing uses what is meant for the clones.
    async fn keep_warm(&self, vm: &Vm, progress: &(dyn Fn(BuildStep) + Sync)) -> Result<(), BuildError> {
        let Warm { python, packages, node, .. } = &self.recipe.warm;
        if python.is_none() && *node == 0 {
            return Ok(());
        }
        progress(BuildStep::Warm);
        let python = python
            .as_ref()
            .map(|modules| WarmPython { modules: modules.clone(), packages: packages.clone() });
        let request = WarmRequest { python, node: *node };
        vm.agent().warm(request, WARM_DEADLINE).await.map_err(BuildError::Warm)
    }
}

/// Makes interpreters that are started now, and are still there when the machine is frozen, register with the
/// agent: it tells them to take fresh randomness in every clone.
fn template_environment() -> Vec<EnvVar> {
    let set = |name: &'static str, value: &'static str| EnvVar { name: name.into(), value: value.into() };
    vec![set("REKINDLE_TEMPLATE", "1"), set("NODE_OPTIONS", "--require /usr/lib/rekindle/reseed.cjs")]
}

fn request(step: &Step) -> ExecuteRequest {
    ExecuteRequest {
        program: Some(program(&step.run)),
        timeout_millis: u64::try_from(step.timeout.as_millis()).unwrap_or(u64::MAX),
        output_limit: SHOWN,
        // What waits is for the clones.
        plain_interpreter: true,
        ..ExecuteRequest::default()
    }
}

async fn run_step(vm: &Vm, step: &Step, name: String) -> Result<(), BuildError> {
    match vm.agent().run(request(step)).await {
        Ok(Finished { outcome: Outcome::Exited(0), .. }) => Ok(()),
        Ok(Finished { outcome, stdout, stderr, .. }) => {
            Err(BuildError::Failed { step: name, outcome, output: format!("{}{}", stdout.text, stderr.text) })
        }
        Err(source) => Err(BuildError::Step { step: name, source }),
    }
}

fn program(run: &Run) -> Program {
    match run {
        Run::Command(argv) => {
            Program::Command(Command { argv: argv.iter().map(|word| word.clone().into()).collect() })
        }
        Run::Shell(line) => Program::Shell(line.clone()),
        Run::Code { language, source } => {
            let language = match language {
                Language::Python => WireLanguage::Python,
                Language::Node => WireLanguage::Node,
                Language::Bash => WireLanguage::Bash,
            };
            Program::Code(Code { language: language as i32, source: source.clone() })
        }
    }
}
