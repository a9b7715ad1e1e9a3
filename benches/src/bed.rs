//! One engine, one snapshot of one template, and machines made from it.
//!
//! The snapshot is the one callers use: it is looked for in the data directory and built when it is not
//! there. What a scenario starts it stops; what a killed run leaves, the next `rekindle` command undoes.

use std::fs;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use anyhow::{Context, Result, anyhow};
use rekindle::agent::RestoreRequest;
use rekindle::config::{Dirs, Recipe, TemplateName};
use rekindle::engine::detect::{self, Decision, EngineChoice};
use rekindle::engine::{Engine, EngineKind, Hardware, MachineHome, SnapshotFiles};
use rekindle::host::cgroup::{Cgroup, CgroupManager, CpuQuota, Limits};
use rekindle::host::process::RunAs;
use rekindle::host::scratch;
use rekindle::store::{Artifacts, Snapshot, Store, StoreError};
use rekindle::vm::{
    BuildStep, Identity, ScratchMount, TemplateSource, UserRange, Vm, VmHost, VmHostConfig, restore_clone,
};
use tempfile::TempDir;

/// Longest that anything in a guest is waited for on a slow, busy host.
pub const PATIENCE: Duration = Duration::from_secs(240);

/// Recipes every installation has.
const RECIPES: [(&str, &str); 2] = [
    ("minimal", include_str!("../../snapshots/minimal.toml")),
    ("python-node", include_str!("../../snapshots/python-node.toml")),
];

/// Where everything is measured.
#[derive(Debug)]
pub struct Bed {
    /// Where machines are made.
    pub host: Arc<VmHost>,
    /// What the snapshot was made from.
    pub source: TemplateSource,
    /// The snapshot.
    pub snapshot: Arc<Snapshot>,
    /// Which engine, and why.
    pub decision: Decision,
    data: PathBuf,
    cgroups: CgroupManager,
    groups: AtomicU32,
}

/// What a machine outside of `vm` stands on. Keep it until the machine is gone.
#[derive(Debug)]
pub struct Ground {
    /// The virtual hardware, with a scratch disk of its own.
    pub hardware: Hardware,
    /// Its directory.
    pub dir: TempDir,
    cgroup: Cgroup,
}

impl Bed {
    /// Chooses the engine, finds or builds the snapshot.
    ///
    /// # Errors
    /// When no engine can run here, or kernel and image are not built.
    pub async fn open(
        choice: EngineChoice,
        recipe: Recipe,
        progress: &(dyn Fn(BuildStep) + Sync),
    ) -> Result<Self> {
        let dirs = Dirs::find()?;
        let (engine, decision) = detect::detect(choice, None)?;
        let cgroups = CgroupManager::detect(None);
        let store = Store::open(&dirs.data)?;
        store.reclaim()?;
        let users = nix::unistd::geteuid().is_root().then_some(UserRange::DEFAULT);
        let host = VmHost::open(VmHostConfig {
            engine,
            cgroups: cgroups.clone(),
            require_limits: false,
            data_dir: dirs.data.clone(),
            users,
        })?;
        let template = &recipe.name.clone();
        let source = TemplateSource::find(recipe, &Artifacts::new(&dirs.cache))?;
        let snapshot = match store.load(template, &source.inputs(&host)) {
            Ok(snapshot) => snapshot,
            Err(StoreError::Missing { .. } | StoreError::Incompatible { .. }) => {
                let _lock = store.lock_build(template)?;
                source.build(&host, &store, progress).await?.snapshot
            }
            Err(error) => return Err(error.into()),
        };
        let (host, snapshot) = (Arc::new(host), Arc::new(snapshot));
        Ok(Self { host, source, snapshot, decision, data: dirs.data, cgroups, groups: AtomicU32::new(0) })
    }

    /// The engine.
    #[must_use]
    pub fn engine(&self) -> &dyn Engine {
        self.host.engine().as_ref()
    }

    /// Which kind of engine.
    #[must_use]
    pub fn kind(&self) -> EngineKind {
        self.engine().identity().engine
    }

    /// A sandbox as callers get it.
    ///
    /// # Errors
    /// When it cannot be restored.
    pub async fn clone(&self) -> Result<Vm> {
        Ok(restore_clone(&self.host, &self.snapshot, &self.source.plan(), &Identity::default()).await?)
    }

    /// A machine of the template that boots.
    ///
    /// # Errors
    /// When it does not come to life.
    pub async fn cold_boot(&self) -> Result<Vm> {
        let identity = Identity { scratch: ScratchMount::Blank, ..Identity::default() };
        Ok(self.source.cold_boot(&self.host, self.source.plan(), &identity, None).await?)
    }

    /// The snapshot's files, as an engine takes them.
    #[must_use]
    pub fn files(&self) -> SnapshotFiles {
        rekindle::vm::files(&self.snapshot)
    }

    /// Every file that a restore reads.
    #[must_use]
    pub fn read_by_restore(&self) -> Vec<PathBuf> {
        let SnapshotFiles { memory, state, .. } = self.files();
        vec![memory, state, self.snapshot.scratch(), self.source.image.path.clone()]
    }

    /// Directory, control group and scratch disk for a machine that the engine makes without `vm`.
    ///
    /// # Errors
    /// When they cannot be made.
    pub fn ground(&self) -> Result<Ground> {
        let dir = tempfile::Builder::new().prefix("bench-").tempdir_in(&self.data)?;
        let number = self.groups.fetch_add(1, Ordering::Relaxed);
        let name = format!("bench-{}-{number}", std::process::id());
        let recipe = &self.source.recipe;
        let capabilities = self.engine().capabilities();
        let memory_mib = u64::from(recipe.memory_mib) + capabilities.memory_overhead_mib;
        let limits = Limits {
            cpu: Some(CpuQuota { millis: recipe.vcpus * 1000 }),
            memory_bytes: Some(memory_mib << 20),
            pids: Some(u64::from(recipe.vcpus) + capabilities.thread_overhead),
            io: None,
        };
        let cgroup = self.cgroups.create(&name, &limits)?;
        let disk = dir.path().join("scratch");
        scratch::copy(&self.snapshot.scratch(), &disk)?;
        let hardware = Hardware {
            vcpus: recipe.vcpus,
            memory_mib: recipe.memory_mib,
            image: self.source.image.path.clone(),
            scratch: disk,
        };
        Ok(Ground { hardware, dir, cgroup })
    }

    /// The process ids of a machine's monitor and of everything it started.
    ///
    /// # Errors
    /// When the machine left no record, or is gone.
    pub fn processes(&self, vm: &Vm) -> Result<Vec<u32>> {
        let id = vm.id().to_string();
        let instances = fs::read_dir(self.data.join("run"))?.flatten();
        let dir = instances.map(|entry| entry.path().join(&id)).find(|dir| dir.exists());
        let text = fs::read(dir.context("the machine has no directory")?.join("record.json"))?;
        let record: serde_json::Value = serde_json::from_slice(&text)?;
        let pid = record["process"]["pid"].as_u64().and_then(|pid| u32::try_from(pid).ok());
        let mut found = vec![pid.context("the machine's record names no process")?];
        let mut next = 0;
        while let Some(pid) = found.get(next).copied() {
            found.extend(children(pid));
            next += 1;
        }
        Ok(found)
    }
}

impl Ground {
    /// Where the machine lives, with the limits and the user that `vm` would give it.
    ///
    /// # Errors
    /// When its control group cannot be entered.
    pub fn home(&self) -> Result<MachineHome> {
        Ok(MachineHome {
            work_dir: self.dir.path().to_owned(),
            cgroup: Some(self.cgroup.join()?),
            run_as: user(),
            io: rekindle::engine::IoThrottle::default(),
            deadline: PATIENCE,
        })
    }

    /// Gives everything back.
    ///
    /// # Errors
    /// When the control group stays behind.
    pub async fn close(self) -> Result<()> {
        Ok(self.cgroup.close().await?)
    }
}

/// The recipe of a template.
///
/// # Errors
/// When there is none of that name.
pub fn recipe(template: &TemplateName) -> Result<Recipe> {
    let known = RECIPES.iter().find(|(name, _)| *name == template.as_str());
    let (_, text) = known.with_context(|| format!("there is no template {template} to measure"))?;
    Ok(Recipe::parse(template, text)?)
}

/// The recipe of a template whose agent is told something. Its snapshot is another one.
///
/// # Errors
/// When there is none of that name.
pub fn recipe_with(template: &TemplateName, agent_word: Option<&str>) -> Result<Recipe> {
    let mut recipe = recipe(template)?;
    recipe.kernel_args.extend(agent_word.map(|word| format!("rekindle.{word}")));
    Ok(recipe)
}

/// A user that belongs to nobody, where this process may become one.
#[must_use]
pub fn user() -> Option<RunAs> {
    let id = UserRange::DEFAULT.first + UserRange::DEFAULT.count - 1;
    nix::unistd::geteuid().is_root().then_some(RunAs { uid: id, gid: id })
}

/// What makes a clone its own, for conversations without `vm`.
///
/// # Errors
/// When no random bytes can be had.
pub fn gate_request() -> Result<RestoreRequest> {
    let mut entropy = vec![0; 64];
    getrandom::fill(&mut entropy).map_err(|error| anyhow!("no random bytes: {error}"))?;
    let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    Ok(RestoreRequest {
        machine_id: entropy[..16].iter().map(|byte| format!("{byte:02x}")).collect(),
        entropy: entropy.into(),
        unix_nanos: u64::try_from(now.as_nanos()).unwrap_or(u64::MAX),
        hostname: "bench".into(),
        limits: Some(rekindle::agent::SandboxLimits::default()),
        ..RestoreRequest::default()
    })
}

fn children(pid: u32) -> Vec<u32> {
    let tasks = fs::read_dir(Path::new("/proc").join(pid.to_string()).join("task"));
    let lists = tasks.into_iter().flatten().flatten().map(|task| task.path().join("children"));
    let texts = lists.filter_map(|path| fs::read_to_string(path).ok());
    texts
        .flat_map(|text| text.split_whitespace().filter_map(|pid| pid.parse().ok()).collect::<Vec<_>>())
        .collect()
}
