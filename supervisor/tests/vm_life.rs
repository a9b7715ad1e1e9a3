//! The life of a machine on the fake engine: every phase can fail, and whatever fails leaves nothing behind.

use std::fs;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use rekindle::config::{Recipe, TemplateName};
use rekindle::engine::fake::{FakeEngine, Fault};
use rekindle::engine::{Engine, Operation};
use rekindle::host::cgroup::CgroupManager;
use rekindle::store::{Artifact, Snapshot, Store};
use rekindle::vm::{
    BuildError, Death, Identity, Lost, StartStage, TemplateSource, Vm, VmHost, VmHostConfig, VmState,
    restore_clone,
};
use rekindle_protocol::mux::{self, Side, Stream};
use rekindle_protocol::wire::request::Op;
use rekindle_protocol::wire::response::Reply;
use rekindle_protocol::wire::{self, execute_result::Outcome};
use rekindle_protocol::{VERSION, frame, preamble};
use tokio::io::{AsyncWriteExt, DuplexStream};

const SOON: Duration = Duration::from_secs(60);

/// How the agent inside the fake machine behaves.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Agent {
    Good,
    Silent,
    GateRefused,
    WarmupFails,
}

fn guest(agent: Agent) -> impl Fn(DuplexStream) + Send + Sync + 'static {
    move |io| {
        if agent == Agent::Silent {
            // Held open without a word.
            tokio::spawn(async move {
                let _held = io;
                std::future::pending::<()>().await;
            });
        } else {
            tokio::spawn(serve(io, agent));
        }
    }
}

async fn serve(io: DuplexStream, agent: Agent) {
    let Ok(Some(io)) = preamble::respond(io, |_| Reply::Hello(hello())).await else { return };
    let (opener, mut incoming, driver) = mux::session(io, Side::Guest);
    let mut opener = Some(opener);
    tokio::spawn(driver);
    while let Some(mut stream) = incoming.next().await {
        let Ok(Some(wire::Request { op: Some(op) })) = frame::read(&mut stream).await else { continue };
        match op {
            Op::Restore(_) if agent == Agent::GateRefused => {
                let message = "entropy: no".to_owned();
                let code = wire::ErrorCode::GateFailed as i32;
                say(stream, Reply::Error(wire::Error { code, message })).await;
            }
            Op::Execute(_) => {
                frame::write(&mut stream, &response(Reply::Started(wire::Started { execution: 1, pid: 2 })))
                    .await
                    .expect("the host listens");
                let code = u32::from(agent == Agent::WarmupFails);
                let result = wire::ExecuteResult {
                    outcome: Some(Outcome::Exited(code)),
                    stdout: Some(wire::CollectedOutput::default()),
                    stderr: Some(wire::CollectedOutput::default()),
                    usage: Some(wire::Usage::default()),
                    diagnosis: None,
                    interpreter: 0,
                };
                say(stream, Reply::Result(result)).await;
            }
            Op::Quiesce(_) => {
                say(stream, Reply::Done(wire::Done {})).await;
                // As the real agent does: it hangs up once it is quiet.
                opener = None;
            }
            _ => say(stream, Reply::Done(wire::Done {})).await,
        }
    }
    drop(opener);
}

fn response(reply: Reply) -> wire::Response {
    wire::Response { reply: Some(reply) }
}

async fn say(mut stream: Stream, reply: Reply) {
    if frame::write(&mut stream, &response(reply)).await.is_ok() {
        let _ = stream.shutdown().await;
    }
}

fn hello() -> wire::HelloResponse {
    wire::HelloResponse {
        version: Some(VERSION),
        program: "fake 0".into(),
        capabilities: Some(wire::Capabilities {
            kill_scope: wire::KillScope::Cgroup as i32,
            memory_limits: true,
            pids_limits: true,
            cpu_limits: true,
            init: true,
        }),
        gate_open: false,
        running: 0,
    }
}

/// A host with a fake engine, a store and a template to build.
struct Place {
    dir: tempfile::TempDir,
    engine: FakeEngine,
    host: VmHost,
    store: Store,
    source: TemplateSource,
}

impl Place {
    fn new(agent: Agent) -> Self {
        let dir = tempfile::tempdir().expect("a directory");
        let engine = FakeEngine::new(guest(agent));
        let data = dir.path().join("data");
        let host = VmHost::open(config(&engine, &data)).expect("a host");
        let store = Store::open(&data).expect("a store");
        let source = source(dir.path());
        Self { dir, engine, host, store, source }
    }

    async fn build(&self) -> Result<Snapshot, BuildError> {
        self.source.build(&self.host, &self.store, &|_| {}).await.map(|built| built.snapshot)
    }

    async fn clone_of(&self, snapshot: &Snapshot) -> Result<Vm, rekindle::vm::StartError> {
        restore_clone(&self.host, snapshot, &self.source.plan(), &Identity::default()).await
    }

    /// Directories of machines and of half-made snapshots.
    fn remains(&self) -> Vec<PathBuf> {
        let data = self.dir.path().join("data");
        let instances = list(&data.join("run")).into_iter().flat_map(|instance| list(&instance));
        let machines = instances.filter(|path| path.is_dir());
        machines.chain(list(&data.join("staging")).into_iter().filter(|path| path.is_dir())).collect()
    }
}

fn list(dir: &Path) -> Vec<PathBuf> {
    fs::read_dir(dir).map(|entries| entries.flatten().map(|entry| entry.path()).collect()).unwrap_or_default()
}

fn config(engine: &FakeEngine, data: &Path) -> VmHostConfig {
    VmHostConfig {
        engine: Arc::new(engine.clone()) as Arc<dyn Engine>,
        cgroups: CgroupManager::none("tests of the machine's life need none"),
        require_limits: false,
        data_dir: data.to_owned(),
        users: None,
    }
}

fn source(dir: &Path) -> TemplateSource {
    let artifact = |name: &str| {
        let path = dir.join(name);
        fs::write(&path, name).expect("written");
        Artifact { path, sha256: "0".repeat(64) }
    };
    let name: TemplateName = "tiny".parse().expect("a name");
    let text = "description = \"a test\"\nimage = \"tiny\"\nmemory_mib = 64\nscratch_mib = 16\n\
                [[warmup]]\nshell = \"true\"\n";
    let recipe = Recipe::parse(&name, text).expect("a recipe");
    TemplateSource { recipe, kernel: artifact("vmlinux"), image: artifact("image.erofs") }
}

#[tokio::test]
async fn a_template_is_built_cloned_used_and_gone() {
    let place = Place::new(Agent::Good);
    let snapshot = place.build().await.expect("built");
    assert!(place.remains().is_empty(), "the template's machine is gone: {:?}", place.remains());
    let vm = place.clone_of(&snapshot).await.expect("a clone");
    assert_eq!(vm.state(), VmState::Running);
    vm.pause().await.expect("paused");
    assert_eq!(vm.state(), VmState::Paused);
    vm.resume().await.expect("resumed");
    assert_eq!(place.remains().len(), 1);
    assert_eq!(vm.stop().await, Death::Stopped);
    assert!(place.remains().is_empty(), "{:?}", place.remains());
}

#[tokio::test]
async fn a_failure_in_any_phase_names_the_phase_and_leaves_nothing() {
    let place = Place::new(Agent::Good);
    let snapshot = place.build().await.expect("built");
    for (operation, stage) in [
        (Operation::Prepare, StartStage::Machine),
        (Operation::Load, StartStage::Machine),
        (Operation::Dial, StartStage::Machine),
    ] {
        for fault in [Fault::Fail("ordered".into()), Fault::Die] {
            place.engine.inject(operation, fault.clone());
            let error = place.clone_of(&snapshot).await.expect_err("the fault was ordered");
            assert_eq!(error.stage(), stage, "{operation} {fault:?}: {error}");
            assert!(place.remains().is_empty(), "{operation} {fault:?}: {:?}", place.remains());
        }
    }
    let vm = place.clone_of(&snapshot).await.expect("the place still works");
    vm.stop().await;
}

#[tokio::test]
async fn a_failed_build_publishes_nothing_and_leaves_nothing() {
    for operation in [Operation::Launch, Operation::Dial, Operation::Snapshot] {
        let place = Place::new(Agent::Good);
        place.engine.inject(operation, Fault::Fail("ordered".into()));
        place.build().await.expect_err("the fault was ordered");
        let vanished = async {
            // A machine whose build failed is ended by its driver in the background.
            while !place.remains().is_empty() {
                tokio::time::sleep(Duration::from_millis(5)).await;
            }
        };
        tokio::time::timeout(SOON, vanished).await.expect("nothing is left");
        assert!(place.store.list().expect("a list").is_empty(), "{operation}");
    }
}

#[tokio::test]
async fn a_warm_up_step_that_fails_fails_the_build_by_name() {
    let place = Place::new(Agent::WarmupFails);
    let error = place.build().await.expect_err("the step fails");
    assert!(error.to_string().contains("warm-up step 1 of 1"), "{error}");
    assert!(place.store.list().expect("a list").is_empty());
}

#[tokio::test]
async fn a_gate_that_does_not_open_is_a_start_that_failed() {
    let place = Place::new(Agent::GateRefused);
    let error = place.build().await.expect_err("refused");
    match error {
        BuildError::Start(error) => assert_eq!(error.stage(), StartStage::Gate, "{error}"),
        other => panic!("{other}"),
    }
    assert!(place.remains().is_empty(), "{:?}", place.remains());
}

#[tokio::test]
async fn an_agent_that_says_nothing_ends_at_the_deadline_with_nothing_left() {
    let place = Place::new(Agent::Good);
    let snapshot = place.build().await.expect("built");
    let silent = FakeEngine::new(guest(Agent::Silent));
    let data = place.dir.path().join("elsewhere");
    let host = VmHost::open(config(&silent, &data)).expect("a host");
    let mut plan = place.source.plan();
    plan.deadline = Duration::from_millis(200);
    let error = restore_clone(&host, &snapshot, &plan, &Identity::default()).await.expect_err("silence");
    assert_eq!(error.stage(), StartStage::Connect, "{error}");
    let machines: Vec<_> =
        list(&data.join("run")).iter().flat_map(|run| list(run)).filter(|path| path.is_dir()).collect();
    assert!(machines.is_empty(), "{machines:?}");
}

#[tokio::test]
async fn a_machine_that_dies_is_told_apart_from_an_agent_that_does() {
    let place = Place::new(Agent::Good);
    let snapshot = place.build().await.expect("built");
    let vm = place.clone_of(&snapshot).await.expect("a clone");
    place.engine.machines().last().expect("a machine").crash();
    let error = vm.agent().ping(SOON).await.expect_err("nobody is there");
    match vm.blame(&error).await {
        Some(Lost::Vm(Death::Lost { .. })) => {}
        other => panic!("{other:?} for {error}"),
    }
    assert!(matches!(vm.ended().await, Death::Lost { .. }));
    assert!(place.remains().is_empty(), "{:?}", place.remains());
}

#[tokio::test]
async fn dropping_a_machine_stops_it() {
    let place = Place::new(Agent::Good);
    let snapshot = place.build().await.expect("built");
    drop(place.clone_of(&snapshot).await.expect("a clone"));
    let vanished = async {
        while !place.remains().is_empty() {
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    };
    tokio::time::timeout(SOON, vanished).await.expect("nothing is left");
}

#[tokio::test]
async fn what_a_killed_supervisor_left_is_undone_by_the_next_and_the_living_are_left_alone() {
    let place = Place::new(Agent::Good);
    let snapshot = place.build().await.expect("built");
    let alive = place.clone_of(&snapshot).await.expect("a clone");
    let run = place.dir.path().join("data/run");
    // A supervisor that was killed: its directory is there, its lock is free.
    let dead = run.join("dead");
    fs::create_dir_all(dead.join("machine")).expect("made");
    fs::write(dead.join("lock"), "").expect("made");
    fs::write(dead.join("machine/scratch"), "left").expect("made");
    let next = VmHost::open(config(&place.engine, &place.dir.path().join("data"))).expect("a host");
    assert_eq!(next.reclaimed().supervisors, 1);
    assert!(!dead.exists());
    assert_eq!(alive.state(), VmState::Running);
    assert_eq!(place.remains().len(), 1, "the living supervisor's machine is still there");
    alive.stop().await;
}
