//! The life of a machine on the fake engine: every phase can fail, and whatever fails leaves nothing behind.

use std::fs;
use std::time::Duration;

use rekindle::engine::Operation;
use rekindle::engine::fake::Fault;
use rekindle::store::Snapshot;
use rekindle::vm::{
    BuildError, Death, Identity, Lost, Plan, StartError, StartStage, TemplateSource, Vm, VmState,
    restore_clone,
};
use rekindle_fake_guest::Manner;
use rekindle_fake_host::FakeHost;
use rekindle_test_support::wait::PATIENCE;

/// A host, and a template with one step of warm-up.
struct Place {
    fake: FakeHost,
    source: TemplateSource,
}

impl Place {
    fn new(manner: Manner) -> Self {
        let fake = FakeHost::with(manner);
        let source = fake.source("tiny", "[[warmup]]\nshell = \"true\"\n");
        Self { fake, source }
    }

    /// With a template that is built.
    async fn built() -> (Self, Snapshot) {
        let place = Self::new(Manner::default());
        let snapshot = place.build().await.expect("built");
        (place, snapshot)
    }

    async fn build(&self) -> Result<Snapshot, BuildError> {
        self.fake.build(&self.source).await
    }

    async fn clone_of(&self, snapshot: &Snapshot) -> Result<Vm, StartError> {
        restore_clone(&self.fake.host, snapshot, &self.source.plan(), &Identity::default()).await
    }

    fn assert_nothing_is_left(&self) {
        assert!(self.fake.remains().is_empty(), "{:?}", self.fake.remains());
    }

    fn assert_nothing_is_published(&self) {
        assert!(self.fake.store().list().expect("a list").is_empty());
    }
}

#[tokio::test]
async fn a_template_is_built_cloned_used_and_gone() {
    let (place, snapshot) = Place::built().await;
    place.assert_nothing_is_left();
    let vm = place.clone_of(&snapshot).await.expect("a clone");
    assert_eq!(vm.state(), VmState::Running);
    vm.pause().await.expect("paused");
    assert_eq!(vm.state(), VmState::Paused);
    vm.resume().await.expect("resumed");
    assert_eq!(place.fake.remains().len(), 1);
    assert_eq!(vm.stop().await, Death::Stopped);
    place.assert_nothing_is_left();
}

#[tokio::test]
async fn a_failure_in_any_phase_names_the_phase_and_leaves_nothing() {
    let (place, snapshot) = Place::built().await;
    for (operation, stage) in [
        (Operation::Prespawn, StartStage::Machine),
        (Operation::Load, StartStage::Machine),
        (Operation::Dial, StartStage::Machine),
    ] {
        for fault in [Fault::Fail("ordered".into()), Fault::Die] {
            place.fake.engine.inject(operation, fault.clone());
            let error = place.clone_of(&snapshot).await.expect_err("the fault was ordered");
            assert_eq!(error.stage(), stage, "{operation} {fault:?}: {error}");
            place.assert_nothing_is_left();
        }
    }
    let vm = place.clone_of(&snapshot).await.expect("the place still works");
    vm.stop().await;
}

#[tokio::test]
async fn a_failed_build_publishes_nothing_and_leaves_nothing() {
    for operation in [Operation::Launch, Operation::Dial, Operation::Snapshot] {
        let place = Place::new(Manner::default());
        place.fake.engine.inject(operation, Fault::Fail("ordered".into()));
        place.build().await.expect_err("the fault was ordered");
        // A machine whose build failed is ended by its driver in the background.
        place.fake.until_remain(0).await;
        place.assert_nothing_is_published();
    }
}

#[tokio::test]
async fn a_warm_up_step_that_fails_fails_the_build_by_name() {
    let place = Place::new(Manner { exit_code: Some(1), ..Manner::default() });
    let error = place.build().await.expect_err("the step fails");
    assert!(error.to_string().contains("warm-up step 1 of 1"), "{error}");
    place.assert_nothing_is_published();
}

#[tokio::test(start_paused = true)]
async fn an_agent_that_never_hangs_up_fails_the_build_and_leaves_nothing() {
    let place = Place::new(Manner { stays_on_the_line: true, ..Manner::default() });
    let built = tokio::time::timeout(Duration::from_secs(24 * 60 * 60), place.build()).await;
    let error = built.expect("it has an end").expect_err("it is never quiet");
    assert!(matches!(error, BuildError::Quiesce(_)), "{error}");
    place.fake.until_remain(0).await;
    place.assert_nothing_is_published();
}

#[tokio::test]
async fn a_gate_that_does_not_open_is_a_start_that_failed() {
    let place = Place::new(Manner { refuses_gate: true, ..Manner::default() });
    let error = place.build().await.expect_err("refused");
    match error {
        BuildError::Start(error) => assert_eq!(error.stage(), StartStage::Gate, "{error}"),
        other => panic!("{other}"),
    }
    place.assert_nothing_is_left();
}

#[tokio::test]
async fn an_agent_that_says_nothing_ends_at_the_deadline_with_nothing_left() {
    let (place, snapshot) = Place::built().await;
    place.fake.guests.behave(Manner { silent: true, ..Manner::default() });
    let plan = Plan { deadline: Duration::from_millis(200), ..place.source.plan() };
    let started = restore_clone(&place.fake.host, &snapshot, &plan, &Identity::default()).await;
    assert_eq!(started.expect_err("silence").stage(), StartStage::Connect);
    place.assert_nothing_is_left();
}

#[tokio::test]
async fn a_machine_that_dies_is_told_apart_from_an_agent_that_does() {
    let (place, snapshot) = Place::built().await;
    let vm = place.clone_of(&snapshot).await.expect("a clone");
    place.fake.engine.machines().last().expect("a machine").crash();
    let error = vm.agent().ping(PATIENCE).await.expect_err("nobody is there");
    match vm.blame(&error).await {
        Some(Lost::Vm(Death::Lost { .. })) => {}
        other => panic!("{other:?} for {error}"),
    }
    assert!(matches!(vm.ended().await, Death::Lost { .. }));
    place.assert_nothing_is_left();
}

#[tokio::test]
async fn dropping_a_machine_stops_it() {
    let (place, snapshot) = Place::built().await;
    drop(place.clone_of(&snapshot).await.expect("a clone"));
    place.fake.until_remain(0).await;
}

#[tokio::test]
async fn what_a_killed_supervisor_left_is_undone_by_the_next_and_the_living_are_left_alone() {
    let (place, snapshot) = Place::built().await;
    let alive = place.clone_of(&snapshot).await.expect("a clone");
    let run = place.fake.data().join("run");
    // A supervisor that was killed: its directory is there, its lock is free.
    let dead = run.join("dead");
    fs::create_dir_all(dead.join("machine")).expect("made");
    fs::write(dead.join("lock"), "").expect("made");
    fs::write(dead.join("machine/scratch"), "left").expect("made");
    let next = place.fake.another();
    assert_eq!(next.reclaimed().supervisors, 1);
    assert!(!dead.exists());
    assert_eq!(alive.state(), VmState::Running);
    assert_eq!(place.fake.remains().len(), 1, "the living supervisor's machine is still there");
    alive.stop().await;
}
