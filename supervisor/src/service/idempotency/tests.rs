//! What is kept for later calls is bounded, and what had to go is told.

use proptest::prelude::*;

use super::*;
use crate::agent::{Outcome, Usage};
use crate::service::id::ExecutionId;

fn executed(bytes: usize) -> Executed {
    let output = |bytes: usize| Output {
        text: "x".repeat(bytes),
        truncated: false,
        total_bytes: bytes as u64,
        total_chars: bytes as u64,
        spilled_path: None,
        spilled_bytes: 0,
    };
    let finished = Finished {
        outcome: Outcome::Exited(0),
        stdout: output(bytes - bytes / 2),
        stderr: output(bytes / 2),
        usage: Usage { wall_micros: 0, cpu_micros: 0, peak_memory_bytes: None },
        diagnosis: None,
        interpreter: None,
    };
    Executed {
        execution: ExecutionId(1),
        finished: Arc::new(finished),
        network: Arc::default(),
        diagnosis: None,
        turns: None,
        replayed: false,
    }
}

fn program(text: &str) -> Fingerprint {
    Fingerprint::of([text.as_bytes()])
}

/// Runs a program to its end under this key.
fn run(keys: &mut Keys<Executed>, key: &str, bytes: usize) {
    let Ok(Place::First(slot)) = keys.place(key, &program("a")) else { panic!("{key} is not free") };
    keys.settle(&Settled { key, run: slot.run, result: &Ok(executed(bytes)) });
}

/// What a later call with this key gets.
fn later(keys: &mut Keys<Executed>, key: &str) -> &'static str {
    match keys.place(key, &program("a")) {
        Ok(Place::First(_)) => "runs",
        Ok(Place::Later(Waiter { outcome: Pending::Ready(_) })) => "result",
        Ok(Place::Later(_)) => "waits",
        Err(ServiceError::ResultGone) => "gone",
        Err(error) => panic!("{error}"),
    }
}

#[test]
fn large_results_make_room_oldest_first_and_their_programs_do_not_run_again() {
    let mut keys = Keys::<Executed>::default();
    let third = Executed::MAX_RESULT_BYTES / 3 - 1024;
    for key in ["a", "b", "c", "d", "e"] {
        run(&mut keys, key, third);
    }
    assert_eq!(
        ["a", "b", "c", "d", "e"].map(|key| later(&mut keys, key)),
        ["gone", "gone", "result", "result", "result"]
    );
    assert!(matches!(keys.place("a", &program("another")), Err(ServiceError::KeyReused)));
    run(&mut keys, "small", 1);
    assert_eq!(later(&mut keys, "c"), "result", "there was room for it");
}

#[test]
fn a_result_beyond_the_bound_is_not_kept_and_its_program_does_not_run_again() {
    let mut keys = Keys::<Executed>::default();
    run(&mut keys, "before", 10);
    run(&mut keys, "huge", Executed::MAX_RESULT_BYTES + 1);
    assert_eq!(later(&mut keys, "huge"), "gone");
    assert_eq!(keys.result_bytes, 0);
    run(&mut keys, "after", 10);
    assert_eq!(later(&mut keys, "after"), "result");
}

#[test]
fn the_largest_result_there_can_be_is_kept() {
    let mut keys = Keys::<Executed>::default();
    run(&mut keys, "k", rekindle_protocol::limits::MAX_OUTPUT_LIMIT * 4 * 2);
    assert_eq!(later(&mut keys, "k"), "result");
}

#[test]
fn keys_are_bounded_in_number_too() {
    let mut keys = Keys::<Executed>::default();
    for number in 0..Executed::REMEMBERED + 3 {
        run(&mut keys, &number.to_string(), 1);
    }
    assert_eq!(["2", "3"].map(|key| later(&mut keys, key)), ["runs", "result"]);
}

#[test]
fn what_a_tenant_created_is_bounded_in_number_and_bytes() {
    let mut keys = Keys::<SandboxId>::default();
    for number in 0..SandboxId::REMEMBERED + 3 {
        let key = number.to_string();
        let Ok(Place::First(slot)) = keys.place(&key, &program("a")) else { panic!("{key} is not free") };
        let result = Ok(SandboxId::random().expect("an id"));
        keys.settle(&Settled { key: &key, run: slot.run, result: &result });
        assert!(keys.result_bytes <= SandboxId::MAX_RESULT_BYTES);
    }
    assert!(matches!(keys.place("3", &program("a")), Ok(Place::Later(_))), "it is remembered");
    assert!(matches!(keys.place("2", &program("a")), Ok(Place::First(_))), "it made room");
}

#[test]
fn parts_of_a_request_cannot_be_shifted_into_each_other() {
    assert_ne!(Fingerprint::of([b"ab", b"c"]), Fingerprint::of([b"a", b"bc"]));
}

proptest! {
    #[test]
    fn what_is_counted_is_what_is_kept(sizes in proptest::collection::vec(0..Executed::MAX_RESULT_BYTES / 20, 0..400)) {
        let mut keys = Keys::<Executed>::default();
        for (number, bytes) in sizes.into_iter().enumerate() {
            run(&mut keys, &number.to_string(), bytes);
            let kept = keys.entries.values().filter_map(|entry| match &entry.state {
                State::Done(executed) => Some(executed.weight()),
                _ => None,
            });
            prop_assert_eq!(keys.result_bytes, kept.sum::<usize>());
            prop_assert!(keys.result_bytes <= Executed::MAX_RESULT_BYTES);
            prop_assert!(keys.order.len() <= Executed::REMEMBERED && keys.entries.len() == keys.order.len());
        }
    }
}
