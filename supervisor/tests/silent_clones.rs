//! A clone that says nothing after its restore is replaced, once; one that refuses, fails or dies is not.

use std::time::Duration;

use rekindle::engine::fake::Fault;
use rekindle::engine::{EngineError, Operation};
use rekindle::store::Snapshot;
use rekindle::vm::{Identity, Plan, StartError, StartStage, Vm, restore_clone};
use rekindle_fake_guest::Manner;
use rekindle_fake_host::FakeHost;
use rekindle_test_support::wait::{PATIENCE, in_time};

/// A first clone may keep silent for a quarter of this.
const DEADLINE: Duration = Duration::from_secs(2);

/// A host with a built template.
struct Place {
    fake: FakeHost,
    snapshot: Snapshot,
    plan: Plan,
}

impl Place {
    async fn new() -> Self {
        let fake = FakeHost::new();
        let source = fake.source("tiny", "");
        let snapshot = fake.build(&source).await.expect("built");
        let plan = Plan { deadline: DEADLINE, ..source.plan() };
        Self { fake, snapshot, plan }
    }

    async fn start(&self) -> Result<Vm, StartError> {
        restore_clone(&self.fake.host, &self.snapshot, &self.plan, &Identity::default()).await
    }

    fn assert_nothing_is_left(&self) {
        assert_eq!((self.fake.remains(), self.fake.alive()), (Vec::new(), 0));
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
            Self::Dial => place.fake.engine.inject(Operation::Dial, Fault::Hang),
            Self::Hello => place.fake.guests.next_behaves(Manner { silent: true, ..Manner::default() }),
            Self::Gate => place.fake.guests.next_behaves(Manner { silent_gate: true, ..Manner::default() }),
        }
    }
}

#[tokio::test]
async fn a_clone_that_keeps_silent_is_replaced_by_one_that_works() {
    for (silence, _) in Silence::ALL {
        let place = Place::new().await;
        let before = place.fake.loads();
        silence.order(&place);
        let vm = place.start().await.unwrap_or_else(|error| panic!("{silence:?}: {error}"));
        vm.agent().ping(PATIENCE).await.expect("it answers");
        assert_eq!(place.fake.loads() - before, 2, "{silence:?}");
        assert_eq!(place.fake.host.restores_repeated(), 1, "{silence:?}");
        assert_eq!(
            (place.fake.remains().len(), place.fake.alive()),
            (1, 1),
            "the silent one is gone: {silence:?}"
        );
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
        let before = place.fake.loads();
        silence.order(&place);
        silence.order(&place);
        let error = in_time("the start ends", place.start()).await.expect_err("silence");
        assert_eq!(error.stage(), stage, "{silence:?}: {error}");
        assert_eq!(place.fake.loads() - before, 2, "once more, and once only: {silence:?}");
        assert_eq!(place.fake.host.restores_repeated(), 1, "{silence:?}");
        place.assert_nothing_is_left();
    }
}

#[tokio::test]
async fn what_refuses_fails_or_dies_is_not_tried_again() {
    let place = Place::new().await;
    let before = place.fake.loads();
    place.fake.guests.next_behaves(Manner { refuses_gate: true, ..Manner::default() });
    let error = place.start().await.expect_err("refused");
    assert_eq!(error.stage(), StartStage::Gate, "{error}");
    for fault in [Fault::Fail("a bad snapshot".into()), Fault::Die] {
        place.fake.engine.inject(Operation::Load, fault);
        place.start().await.expect_err("the load fails");
    }
    for fault in [Fault::Fail("no".into()), Fault::Die] {
        place.fake.engine.inject(Operation::Dial, fault);
        place.start().await.expect_err("the dial fails");
    }
    assert_eq!(place.fake.loads() - before, 5, "one each");
    assert_eq!(place.fake.host.restores_repeated(), 0);
    place.assert_nothing_is_left();
}

#[tokio::test]
async fn a_start_that_took_its_time_already_is_not_begun_again() {
    let mut place = Place::new().await;
    place.plan.deadline = Duration::from_millis(400);
    let before = place.fake.loads();
    place.fake.engine.inject(Operation::Load, Fault::Delay(Duration::from_millis(350)));
    place.fake.engine.inject(Operation::Dial, Fault::Hang);
    let error = place.start().await.expect_err("silence");
    assert!(matches!(error, StartError::Engine(EngineError::Deadline { .. })), "{error}");
    assert_eq!((place.fake.loads() - before, place.fake.host.restores_repeated()), (1, 0));
    place.assert_nothing_is_left();
}
