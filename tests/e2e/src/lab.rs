//! The laboratory: a snapshot of the template `minimal`, built once per process in a directory of its own.
//!
//! `REKINDLE_ENGINE` names the engine, for the library and for the command line; without it, it is QEMU, which
//! runs anywhere. Kernel and images come from the cache, as `cargo xtask` leaves them. Where one is missing, or
//! the engine cannot run, the laboratory is [`Unavailable`] and a test reports a skip; anything else that goes
//! wrong is a failure.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Child, Command};
use std::sync::OnceLock;

use rekindle::config::{Dirs, Recipe};
use rekindle::engine::EngineKind;
use rekindle::engine::detect::{self, EngineChoice};
use rekindle::host::cgroup::CgroupManager;
use rekindle::store::{Artifacts, Snapshot, Store};
use rekindle::vm::{
    Identity, Plan, ScratchMount, StartError, TemplateSource, UserRange, Vm, VmHost, VmHostConfig,
    restore_clone,
};
use tempfile::TempDir;
use tokio::sync::{Semaphore, SemaphorePermit};

use crate::sweeper;

/// Tests that may use machines at the same time: emulation keeps a processor busy.
const TURNS: u32 = 2;

/// Chooses the engine, in these tests and in `rekindle` itself.
pub(crate) const ENGINE_ENV: &str = "REKINDLE_ENGINE";

/// The engine under test.
///
/// # Panics
/// When the variable names none.
#[must_use]
pub fn engine() -> EngineKind {
    let name = std::env::var(ENGINE_ENV).unwrap_or_else(|_| EngineKind::Qemu.to_string());
    match name.parse() {
        Ok(EngineChoice::Forced(engine)) => engine,
        other => panic!("{ENGINE_ENV}={name}: {other:?}"),
    }
}

/// Why there is no laboratory on this machine.
pub type Unavailable = String;

/// One snapshot and everything needed to restore it.
#[derive(Debug)]
pub struct Lab {
    /// The data directory, for the library and for the command line.
    pub data: PathBuf,
    /// Recipes that take the place of built-in ones.
    pub recipes: PathBuf,
    /// Where machines are made.
    pub host: VmHost,
    /// Where the snapshot is.
    pub store: Store,
    /// What the snapshot was made from.
    pub source: TemplateSource,
    /// The snapshot.
    pub snapshot: Snapshot,
    artifacts: Artifacts,
    turns: Semaphore,
    _sweeper: Child,
}

impl Lab {
    /// This process's laboratory, built on first use.
    ///
    /// # Errors
    /// Says what this machine lacks.
    ///
    /// # Panics
    /// When everything is there and the snapshot still cannot be built.
    pub fn get() -> Result<&'static Self, Unavailable> {
        static LAB: OnceLock<Result<Lab, Unavailable>> = OnceLock::new();
        // A thread of its own: the caller's runtime must not be blocked by another one inside it.
        let open = || std::thread::spawn(Self::open).join().expect("the laboratory is built");
        LAB.get_or_init(open).as_ref().map_err(Clone::clone)
    }

    fn open() -> Result<Self, Unavailable> {
        let (engine, _) = detect::detect(EngineChoice::Forced(engine()), None)
            .map_err(|error| error.to_string().replace('\n', "; "))?;
        let dirs = Dirs::find().map_err(|error| error.to_string())?;
        let artifacts = Artifacts::of(&dirs);
        let recipe = recipe();
        let source = find(&artifacts, &recipe, "minimal")?;

        let data = tempfile::Builder::new().prefix("rekindle-e2e-").tempdir().expect("a directory").keep();
        let sweeper = sweeper::after_this_process_remove(&data);
        let recipes = data.join("recipes");
        fs::create_dir(&recipes).expect("a directory");
        fs::write(recipes.join("minimal.toml"), &recipe).expect("written");
        let users = nix::unistd::geteuid().is_root().then_some(UserRange::DEFAULT);
        let host = VmHost::open(VmHostConfig {
            engine,
            cgroups: CgroupManager::detect(None),
            require_limits: false,
            data_dir: data.clone(),
            users,
        })
        .expect("a host for machines");
        let store = Store::open(&data).expect("a store");
        let snapshot = wait(source.build(&host, &store, &|_| {})).expect("the template is built").snapshot;
        let turns = Semaphore::new(TURNS as usize);
        Ok(Self { data, recipes, host, store, source, snapshot, artifacts, turns, _sweeper: sweeper })
    }

    /// What another recipe needs, if its image is built.
    ///
    /// # Errors
    /// Says what is missing.
    pub fn source_of(&self, name: &str, recipe: &str) -> Result<TemplateSource, Unavailable> {
        find(&self.artifacts, recipe, name)
    }

    /// Waits until this test may use machines.
    pub async fn turn(&self) -> SemaphorePermit<'_> {
        self.turns.acquire().await.expect("never closed")
    }

    /// Waits until no other test of this process uses machines, and keeps it so.
    pub async fn alone(&self) -> SemaphorePermit<'_> {
        self.turns.acquire_many(TURNS).await.expect("never closed")
    }

    /// A machine of the template that was booted, not restored.
    ///
    /// # Errors
    /// When it does not come to life.
    pub async fn cold_boot(&self) -> Result<Vm, StartError> {
        let identity = Identity { scratch: ScratchMount::Blank, ..Identity::default() };
        self.source.cold_boot(&self.host, self.source.plan(), &identity, None).await
    }

    /// A clone as callers get it.
    ///
    /// # Panics
    /// When it cannot be restored.
    pub async fn clone(&self) -> Vm {
        self.clone_with(&self.source.plan(), &Identity::default()).await
    }

    /// A clone with limits of its own.
    ///
    /// # Panics
    /// When it cannot be restored.
    pub async fn clone_with(&self, plan: &Plan, identity: &Identity) -> Vm {
        restore_clone(&self.host, &self.snapshot, plan, identity).await.expect("a clone is restored")
    }

    /// A data directory that holds a copy of the snapshot and nothing else, for tests that damage or count.
    ///
    /// # Panics
    /// When it cannot be copied.
    #[must_use]
    pub fn copy(&self) -> TempDir {
        self.copy_of(&self.data)
    }

    /// The same of the snapshots in another data directory.
    ///
    /// # Panics
    /// When they cannot be copied.
    #[must_use]
    pub fn copy_of(&self, data: &Path) -> TempDir {
        let copy = self.empty_data();
        // `cp` keeps the holes, of which the memory file is mostly made.
        let copied = Command::new("cp")
            .args(["-a", "--sparse=always", "--reflink=auto"])
            .arg(data.join("snapshots"))
            .arg(copy.path())
            .status();
        assert!(copied.is_ok_and(|status| status.success()), "the snapshot is copied");
        copy
    }

    /// A data directory with nothing in it.
    ///
    /// # Panics
    /// When it cannot be made.
    #[must_use]
    pub fn empty_data(&self) -> TempDir {
        tempfile::Builder::new().prefix("data-").tempdir_in(&self.data).expect("a directory")
    }

    /// The directory of a machine.
    ///
    /// # Panics
    /// When it is gone.
    #[must_use]
    pub fn work_dir(&self, vm: &Vm) -> PathBuf {
        let id = vm.id().to_string();
        let instances = fs::read_dir(self.data.join("run")).expect("readable");
        let mut dirs = instances.map(|entry| entry.expect("an entry").path().join(&id));
        dirs.find(|dir| dir.exists()).expect("the machine has a directory")
    }

    /// The process id of a machine's monitor: the one in the record a later supervisor would find it by, or
    /// the innermost of the processes around it.
    ///
    /// # Panics
    /// When there is no record.
    #[must_use]
    pub fn monitor(&self, vm: &Vm) -> u32 {
        let mut pid = monitor_in(&self.work_dir(vm)).expect("a record with a process");
        while let Some(child) = only_child(pid) {
            pid = child;
        }
        pid
    }

    /// How many machines at once are a crowd here.
    #[must_use]
    pub fn crowd(&self) -> usize {
        if rekindle_test_support::in_lab() { 4 } else { 8 }
    }
}

/// The monitor named in a machine's directory, if one is.
pub(crate) fn monitor_in(work_dir: &Path) -> Option<u32> {
    let record: serde_json::Value =
        serde_json::from_slice(&fs::read(work_dir.join("record.json")).ok()?).ok()?;
    record["process"]["pid"].as_u64().and_then(|pid| pid.try_into().ok())
}

/// The recipe of `minimal`. In the lab its machines are smaller: there every byte that is hashed, copied or
/// filled counts.
fn recipe() -> String {
    let built_in = include_str!("../../../snapshots/minimal.toml");
    if !rekindle_test_support::in_lab() {
        return built_in.to_owned();
    }
    let smaller = [("memory_mib = 512", "memory_mib = 192"), ("scratch_mib = 512", "scratch_mib = 96")];
    smaller.iter().fold(built_in.to_owned(), |recipe, (from, to)| {
        assert!(recipe.contains(from), "{from} is not in the recipe");
        recipe.replace(from, to)
    })
}

fn only_child(pid: u32) -> Option<u32> {
    fs::read_to_string(format!("/proc/{pid}/task/{pid}/children")).ok()?.trim().parse().ok()
}

fn find(artifacts: &Artifacts, recipe: &str, name: &str) -> Result<TemplateSource, Unavailable> {
    let recipe = Recipe::parse(&name.parse().expect("a name"), recipe).expect("a recipe");
    TemplateSource::find(recipe, artifacts).map_err(|error| error.to_string().replace('\n', "; "))
}

fn wait<T>(future: impl Future<Output = T>) -> T {
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build();
    runtime.expect("a runtime").block_on(future)
}
