//! Idempotency keys: a program runs once, however often and by however many it is asked for.

use rekindle_api::Code;
use rekindle_api::v1::execution_outcome::Outcome;
use rekindle_api::v1::{self, ErrorReason};
use rekindle_test_support::wait::until;

use crate::place::{Place, refused, shell};

fn keyed(id: &str, line: &str, key: &str) -> v1::ExecuteRequest {
    v1::ExecuteRequest { idempotency_key: key.into(), ..shell(id, line) }
}

/// Gives calls the time to join the one that runs: nobody but their callers is ever told of them.
async fn joined() {
    tokio::time::sleep(std::time::Duration::from_millis(200)).await;
}

#[tokio::test]
async fn the_same_key_runs_the_program_once() {
    let place = Place::new().await;
    let mut client = place.client().await;
    let (id, guest) = place.sandbox(&mut client).await;
    let ran = guest.executed().len();
    let mut answers = Vec::new();
    for _ in 0..3 {
        let done = client.sandboxes.execute(keyed(&id, "echo once; fail 4", "k")).await.expect("ran");
        answers.push(done.into_inner());
    }
    assert_eq!(guest.executed().len(), ran + 1);
    assert_eq!(answers.iter().map(|done| done.replayed).collect::<Vec<_>>(), [false, true, true]);
    for answer in &answers {
        assert_eq!(
            (answer.execution.as_str(), answer.ended()),
            (answers[0].execution.as_str(), Some(Outcome::ExitCode(4)))
        );
        assert_eq!(answer.stdout, answers[0].stdout);
    }
    let other = client.sandboxes.execute(keyed(&id, "echo twice", "k")).await;
    let detail = refused(other, Code::AlreadyExists, ErrorReason::KeyReused);
    assert!(!detail.retryable && !detail.hint.is_empty());
    let input = v1::ExecuteRequest { stdin: "x".into(), ..keyed(&id, "echo once; fail 4", "k") };
    refused(client.sandboxes.execute(input).await, Code::AlreadyExists, ErrorReason::KeyReused);
    client.sandboxes.execute(keyed(&id, "echo twice", "another")).await.expect("a new key is free");
    let long = keyed(&id, "true", &"k".repeat(129));
    refused(client.sandboxes.execute(long).await, Code::InvalidArgument, ErrorReason::LimitExceeded);
    // A key belongs to its sandbox.
    let (second, guest) = place.sandbox(&mut client).await;
    let done = client.sandboxes.execute(keyed(&second, "echo elsewhere", "k")).await.expect("ran");
    assert!(!done.into_inner().replayed);
    assert!(guest.executed().contains(&"echo elsewhere".to_owned()));
}

#[tokio::test]
async fn two_calls_at_once_share_one_run_also_when_the_first_leaves() {
    let place = Place::new().await;
    let mut client = place.client().await;
    let (id, guest) = place.sandbox(&mut client).await;
    let call = |line: &str| {
        let (mut client, request) = (client.clone(), keyed(&id, line, "shared"));
        tokio::spawn(async move { client.sandboxes.execute(request).await })
    };
    let first = call("sleep 1500; echo done");
    until("running", || guest.running() == 1).await;
    let (second, third) = (call("sleep 1500; echo done"), call("sleep 1500; echo done"));
    joined().await;
    first.abort();
    for waiting in [second, third] {
        let done = waiting.await.expect("no panic").expect("ran").into_inner();
        assert_eq!(done.stdout.expect("stdout").text, "done\n");
        assert!(done.replayed);
    }
    let runs = guest.executed().iter().filter(|line| line.starts_with("sleep")).count();
    assert_eq!(runs, 1);
    let again = client.sandboxes.execute(keyed(&id, "sleep 1500; echo done", "shared")).await;
    assert!(again.expect("remembered").into_inner().replayed);
}

#[tokio::test]
async fn the_last_to_leave_kills_the_run_and_frees_the_key() {
    let place = Place::new().await;
    let mut client = place.client().await;
    let (id, guest) = place.sandbox(&mut client).await;
    let call = || {
        let (mut client, request) = (client.clone(), keyed(&id, "sleep 600000", "k"));
        tokio::spawn(async move { client.sandboxes.execute(request).await })
    };
    let (first, second) = (call(), call());
    until("running", || guest.running() == 1).await;
    joined().await;
    first.abort();
    tokio::time::sleep(std::time::Duration::from_millis(100)).await;
    assert_eq!(guest.running(), 1, "someone still waits");
    second.abort();
    until("killed", || guest.running() == 0).await;
    let done = client.sandboxes.execute(keyed(&id, "echo anew", "k")).await.expect("the key is free");
    assert!(!done.into_inner().replayed);
}

#[tokio::test]
async fn a_run_that_failed_frees_its_key_and_an_end_is_told_to_everyone_who_waits() {
    let place = Place::new().await;
    let mut client = place.client().await;
    let (id, guest) = place.sandbox(&mut client).await;
    guest.refuse_next(rekindle_protocol::wire::ErrorCode::SpawnFailed);
    let failed = client.sandboxes.execute(keyed(&id, "echo hi", "k")).await;
    refused(failed, Code::FailedPrecondition, ErrorReason::SpawnFailed);
    let done = client.sandboxes.execute(keyed(&id, "echo hi", "k")).await.expect("it may be tried again");
    assert!(!done.into_inner().replayed);

    let calls: Vec<_> = (0..3)
        .map(|_| {
            let (mut client, request) = (client.clone(), keyed(&id, "sleep 600000", "long"));
            tokio::spawn(async move { client.sandboxes.execute(request).await })
        })
        .collect();
    until("running", || guest.running() == 1).await;
    joined().await;
    place.machine().crash();
    for call in calls {
        let lost = call.await.expect("no panic");
        let detail = refused(lost, Code::Unavailable, ErrorReason::VmLost);
        assert_eq!(detail.end.expect("how it ended").reason(), v1::SandboxEndReason::VmLost);
    }
}

#[tokio::test]
async fn a_caller_that_always_gives_up_does_not_fill_the_memory_of_keys() {
    let place = Place::new().await;
    let mut client = place.client().await;
    let (id, guest) = place.sandbox(&mut client).await;
    client.sandboxes.execute(keyed(&id, "echo kept", "kept")).await.expect("ran");
    for number in 0..600 {
        let request = keyed(&id, "sleep 600000", &format!("given-up-{number}"));
        let giving_up = client.sandboxes.execute(request);
        let _ = tokio::time::timeout(std::time::Duration::from_millis(3), giving_up).await;
    }
    until("killed", || guest.running() == 0).await;
    let kept = client.sandboxes.execute(keyed(&id, "echo kept", "kept")).await.expect("remembered");
    assert!(kept.into_inner().replayed, "keys of use are not forgotten for it");
}

#[tokio::test]
async fn a_result_that_had_to_make_room_is_told_to_be_gone_and_its_program_does_not_run_again() {
    let place = Place::new().await;
    let mut client = place.client().await;
    let (id, guest) = place.sandbox(&mut client).await;
    // Eleven of them are more than the mebibyte that is kept.
    let line = format!("echo {}", "x".repeat(99_000));
    let large = |number: u32| v1::ExecuteRequest {
        output_limit: Some(100_000),
        ..keyed(&id, &line, &format!("large-{number}"))
    };
    for number in 0..11 {
        client.sandboxes.execute(large(number)).await.expect("ran");
    }
    let ran = guest.executed().len();
    let gone = refused(client.sandboxes.execute(large(0)).await, Code::AlreadyExists, ErrorReason::KeyReused);
    assert!(!gone.retryable && gone.hint.contains("not done again"), "{gone:?}");
    let kept = client.sandboxes.execute(large(10)).await.expect("the latest is kept").into_inner();
    assert!(kept.replayed);
    assert_eq!(guest.executed().len(), ran);
}
