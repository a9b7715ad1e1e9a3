//! A clone that says nothing after its restore is replaced, once; one that refuses, fails or dies is not.

use std::fs;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use rekindle::config::{Recipe, TemplateName};
use rekindle::engine::fake::{FakeEngine, Fault};
use rekindle::engine::{Engine, EngineError, Operation};
use rekindle::host::cgroup::CgroupManager;
use rekindle::store::{Artifact, Snapshot, Store};
use rekindle::vm::{
    Identity, Plan, StartError, StartStage, TemplateSource, Vm, VmHost, VmHostConfig, restore_clone,
};
use rekindle_fake_guest::{Guests, Manner};

const SOON: Duration = Duration::from_secs(60);
/// A first clone may keep silent for a quarter of this.
const DEADLINE: Duration = Duration::from_secs(2);

/// A host with a built template.
struct Place {
    dir: tempfile::TempDir,
    engine: FakeEngine,
    guests: Guests,
    host: VmHost,
    snapshot: Snapshot,
    plan: Plan,
}

impl Place {
    async fn new() -> Self {
        let dir = tempfile::tempdir().expect("a directory");
        let guests = Guests::default();
        let engine = FakeEngine::new(guests.handler());
        let host = VmHost::open(VmHostConfig {
            engine: Arc::new(engine.clone()) as Arc<dyn Engine>,
            cgroups: CgroupManager::none("tests of silent clones need none"),
            require_limits: false,
            data_dir: dir.path().join("data"),
            users: None,
        })
        .expect("a host");
        let artifact = |name: &str| {
            let path = dir.path().join(name);
            fs::write(&path, name).expect("written");
            Artifact { path, sha256: "0".repeat(64) }
        };
        let name: TemplateName = "tiny".parse().expect("a name");
        let text = "description = \"a test\"\nimage = \"tiny\"\nmemory_mib = 64\nscratch_mib = 16\n";
        let recipe = Recipe::parse(&name, text).expect("a recipe");
        let source = TemplateSource { recipe, kernel: artifact("vmlinux"), image: artifact("image.erofs") };
        let store = Store::open(&dir.path().join("data")).expect("a store");
        let snapshot = source.build(&host, &store, &|_| {}).await.expect("built").snapshot;
        let plan = Plan { deadline: DEADLINE, ..source.plan() };
        Self { dir, engine, guests, host, snapshot, plan }
    }

    async fn start(&self) -> Result<Vm, StartError> {
        restore_clone(&self.host, &self.snapshot, &self.plan, &Identity::default()).await
    }

    /// Snapshots that were loaded so far.
    fn loads(&self) -> usize {
        self.engine.log().iter().filter(|operation| **operation == Operation::Load).count()
    }

    /// Directories of machines, and machines that live.
    fn remains(&self) -> (Vec<PathBuf>, usize) {
        let list = |dir: &Path| -> Vec<PathBuf> {
            let entries = fs::read_dir(dir).into_iter().flatten().flatten();
            entries.map(|entry| entry.path()).filter(|path| path.is_dir()).collect()
        };
        let dirs = list(&self.dir.path().join("data/run")).iter().flat_map(|run| list(run)).collect();
        (dirs, self.engine.machines().iter().filter(|machine| machine.is_alive()).count())
    }

    fn assert_nothing_is_left(&self) {
        assert_eq!(self.remains(), (Vec::new(), 0));
    }
}

/// The ways to say nothing, and where each shows.
#[derive(Debug, Clone, Copy)]
enum Silence {
    Dial,
    Hello,
    Gate,
}

impl Silence {
    const ALL: [(Self, StartStage); 3] = [
        (Self::Dial, StartStage::Machine),
        (Self::Hello, StartStage::Connect),
        (Self::Gate, StartStage::Gate),
    ];

    /// The next clone keeps silent like this.
    fn order(self, place: &Place) {
        match self {
            Self::Dial => place.engine.inject(Operation::Dial, Fault::Hang),
            Self::Hello => place.guests.next_behaves(Manner { silent: true, ..Manner::default() }),
            Self::Gate => place.guests.next_behaves(Manner { silent_gate: true, ..Manner::default() }),
        }
    }
}

#[tokio::test]
async fn a_clone_that_keeps_silent_is_replaced_by_one_that_works() {
    for (silence, _) in Silence::ALL {
        let place = Place::new().await;
        let before = place.loads();
        silence.order(&place);
        let vm = place.start().await.unwrap_or_else(|error| panic!("{silence:?}: {error}"));
        vm.agent().ping(SOON).await.expect("it answers");
        assert_eq!(place.loads() - before, 2, "{silence:?}");
        assert_eq!(place.host.restores_repeated(), 1, "{silence:?}");
        let (dirs, alive) = place.remains();
        assert_eq!((dirs.len(), alive), (1, 1), "the silent one is gone: {silence:?}");
        let waited = vm.timings().stages[0];
        assert_eq!(waited.name, "silent");
        assert!(waited.took >= DEADLINE / 4, "its time is part of the start: {waited:?}");
        vm.stop().await;
        place.assert_nothing_is_left();
    }
}

#[tokio::test]
async fn two_silent_clones_are_an_error_within_the_deadline_and_leave_nothing() {
    for (silence, stage) in Silence::ALL {
        let place = Place::new().await;
        let before = place.loads();
        silence.order(&place);
        silence.order(&place);
        let error = tokio::time::timeout(SOON, place.start()).await.expect("in time").expect_err("silence");
        assert_eq!(error.stage(), stage, "{silence:?}: {error}");
        assert_eq!(place.loads() - before, 2, "once more, and once only: {silence:?}");
        assert_eq!(place.host.restores_repeated(), 1, "{silence:?}");
        place.assert_nothing_is_left();
    }
}

#[tokio::test]
async fn what_refuses_fails_or_dies_is_not_tried_again() {
    let place = Place::new().await;
    let before = place.loads();
    place.guests.next_behaves(Manner { refuses_gate: true, ..Manner::default() });
    let error = place.start().await.expect_err("refused");
    assert_eq!(error.stage(), StartStage::Gate, "{error}");
    for fault in [Fault::Fail("a bad snapshot".into()), Fault::Die] {
        place.engine.inject(Operation::Load, fault);
        place.start().await.expect_err("the load fails");
    }
    for fault in [Fault::Fail("no".into()), Fault::Die] {
        place.engine.inject(Operation::Dial, fault);
        place.start().await.expect_err("the dial fails");
    }
    assert_eq!(place.loads() - before, 5, "one each");
    assert_eq!(place.host.restores_repeated(), 0);
    place.assert_nothing_is_left();
}

#[tokio::test]
async fn a_start_that_took_its_time_already_is_not_begun_again() {
    let mut place = Place::new().await;
    place.plan.deadline = Duration::from_millis(400);
    let before = place.loads();
    place.engine.inject(Operation::Load, Fault::Delay(Duration::from_millis(350)));
    place.engine.inject(Operation::Dial, Fault::Hang);
    let error = place.start().await.expect_err("silence");
    assert!(matches!(error, StartError::Engine(EngineError::Deadline { .. })), "{error}");
    assert_eq!((place.loads() - before, place.host.restores_repeated()), (1, 0));
    place.assert_nothing_is_left();
}
