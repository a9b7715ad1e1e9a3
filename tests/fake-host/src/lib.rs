//! A host on the fake engine, in a directory of its own, and a supervisor on it: what tests of machines, the pool, the
//! service and everything in front of it start from.
//!
//! Used by tests only. What its guests do, the fake guest decides; what fails, the test orders from the engine.

use std::fs;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use rekindle::config::Recipe;
use rekindle::engine::fake::FakeEngine;
use rekindle::engine::{Engine, Operation};
use rekindle::host::cgroup::CgroupManager;
use rekindle::pool::{PooledTemplate, Watermarks};
use rekindle::store::{Artifact, Snapshot, Store};
use rekindle::vm::{BuildError, TemplateSource, VmHost, VmHostConfig};
use rekindle_fake_guest::{Guests, Manner};
use rekindle_test_support::wait::until;

mod supervisor;

pub use supervisor::{FakeSupervisor, Wishes, add_token, new_token};

/// Memory of a machine of its templates, in MiB.
pub const MEMORY_MIB: u64 = 64;

/// A host, and what it is made of. Nothing here returns an error: a test that has no host has failed.
pub struct FakeHost {
    /// Where it keeps everything.
    pub dir: tempfile::TempDir,
    /// Where faults are ordered.
    pub engine: FakeEngine,
    /// The guests of all its machines.
    pub guests: Guests,
    /// The host.
    pub host: Arc<VmHost>,
    data: PathBuf,
}

impl FakeHost {
    /// With guests that do as they are told.
    #[must_use]
    pub fn new() -> Self {
        Self::with(Manner::default())
    }

    /// With guests that behave like this.
    #[must_use]
    pub fn with(manner: Manner) -> Self {
        Self::open(manner, None)
    }

    /// With its data here.
    #[must_use]
    pub fn at(data: PathBuf) -> Self {
        Self::open(Manner::default(), Some(data))
    }

    fn open(manner: Manner, data: Option<PathBuf>) -> Self {
        let dir = tempfile::tempdir().expect("a directory");
        let data = data.unwrap_or_else(|| dir.path().join("data"));
        let guests = Guests::with(manner);
        let engine = FakeEngine::new(guests.handler());
        let host = Arc::new(open(&engine, &data));
        Self { dir, engine, guests, host, data }
    }

    /// Where the host keeps its data.
    #[must_use]
    pub fn data(&self) -> PathBuf {
        self.data.clone()
    }

    /// Another supervisor's host on the same data.
    #[must_use]
    pub fn another(&self) -> VmHost {
        open(&self.engine, &self.data())
    }

    /// Where its snapshots are.
    #[must_use]
    pub fn store(&self) -> Store {
        Store::open(&self.data()).expect("a store")
    }

    /// What a small template is made of, with these lines at the end of its recipe.
    #[must_use]
    pub fn source(&self, name: &str, more: &str) -> TemplateSource {
        let artifact = |file: String| {
            let path = self.dir.path().join(&file);
            fs::write(&path, file).expect("written");
            Artifact { path, sha256: "0".repeat(64), packages: Arc::default() }
        };
        let text = format!(
            "description = \"a test\"\nimage = \"tiny\"\nmemory_mib = {MEMORY_MIB}\nscratch_mib = 16\nvcpus = 1\n{more}"
        );
        let recipe = Recipe::parse(&name.parse().expect("a name"), &text).expect("a recipe");
        let (kernel, image) = (artifact(format!("{name}.kernel")), artifact(format!("{name}.image")));
        TemplateSource { recipe, kernel, image }
    }

    /// Builds a template.
    ///
    /// # Errors
    /// As the host says.
    pub async fn build(&self, source: &TemplateSource) -> Result<Snapshot, BuildError> {
        source.build(&self.host, &self.store(), &|_| {}).await.map(|built| built.snapshot)
    }

    /// A built template for a pool.
    pub async fn template(&self, name: &str, low: u32, high: u32, prespawned: u32) -> PooledTemplate {
        self.pooled(self.source(name, "root = true\n"), low, high, prespawned).await
    }

    /// The same, made of this.
    pub async fn pooled(
        &self,
        source: TemplateSource,
        low: u32,
        high: u32,
        prespawned: u32,
    ) -> PooledTemplate {
        let snapshot = Arc::new(self.build(&source).await.expect("built"));
        PooledTemplate { source, snapshot, parked: Watermarks { low, high }, prespawned }
    }

    /// How many snapshots were loaded so far.
    #[must_use]
    pub fn loads(&self) -> usize {
        self.engine.log().iter().filter(|operation| **operation == Operation::Load).count()
    }

    /// How many machines live.
    #[must_use]
    pub fn alive(&self) -> usize {
        self.engine.machines().iter().filter(|machine| machine.is_alive()).count()
    }

    /// Directories of machines and of half-made snapshots.
    #[must_use]
    pub fn remains(&self) -> Vec<PathBuf> {
        let machines = dirs(&self.data().join("run")).into_iter().flat_map(|instance| dirs(&instance));
        machines.chain(dirs(&self.data().join("staging"))).collect()
    }

    /// Waits until so many of them are left: what is dropped ends in the background.
    pub async fn until_remain(&self, count: usize) {
        until(&format!("{count} are left"), || self.remains().len() == count).await;
    }
}

impl Default for FakeHost {
    fn default() -> Self {
        Self::new()
    }
}

fn open(engine: &FakeEngine, data: &Path) -> VmHost {
    let config = VmHostConfig {
        engine: Arc::new(engine.clone()) as Arc<dyn Engine>,
        cgroups: CgroupManager::none("the fake engine needs none"),
        require_limits: false,
        data_dir: data.to_owned(),
        users: None,
    };
    VmHost::open(config).expect("a host")
}

fn dirs(dir: &Path) -> Vec<PathBuf> {
    let entries = fs::read_dir(dir).into_iter().flatten().flatten();
    entries.map(|entry| entry.path()).filter(|path| path.is_dir()).collect()
}
