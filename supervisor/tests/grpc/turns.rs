//! A budget of turns, the result it is for, and what is said about an execution that went wrong.

use std::path::Path;

use rekindle::config::tokens::{Quota, Scope};
use rekindle_api::client::Client;
use rekindle_api::v1::{self, ErrorReason, run_code_event::Event};
use rekindle_api::{Code, Status};
use rekindle_protocol::wire::ErrorCode;
use rekindle_test_support::wait::in_time;

use crate::detached::{start, started, wait};
use crate::live::Live;
use crate::place::{Place, Wishes, millis, refused, shell, token};

fn budget(max_turns: u32) -> v1::CreateSandboxRequest {
    v1::CreateSandboxRequest { max_turns, result_path: "out/report.html".into(), ..Default::default() }
}

async fn run(client: &mut Client, id: &str, line: &str) -> Result<v1::ExecuteResponse, Status> {
    client.sandboxes.execute(shell(id, line)).await.map(tonic::Response::into_inner)
}

async fn get(client: &mut Client, id: &str) -> v1::Sandbox {
    client.sandboxes.get(v1::GetSandboxRequest { sandbox: id.into() }).await.expect("found").into_inner()
}

async fn left(client: &mut Client, id: &str) -> u32 {
    get(client, id).await.turns.expect("turns").left
}

#[tokio::test]
async fn every_result_says_what_is_left_and_two_of_them_to_write_the_result() {
    let place = Place::new().await;
    let mut client = place.client().await;
    let (id, _) = place.sandbox_with(&mut client, budget(5)).await;
    for (left, warning) in [
        (4, ""),
        (3, "3 turns are left: write the result to out/report.html now"),
        (2, ""),
        (1, "1 turn is left: write the result to out/report.html now"),
        (0, ""),
    ] {
        let done = run(&mut client, &id, "fail 1").await.expect("a turn");
        assert_eq!((done.turns_left, &done.warning[..]), (Some(left), warning));
    }
    let detail = refused(
        client.sandboxes.execute(shell(&id, "true")).await,
        Code::ResourceExhausted,
        ErrorReason::TurnsSpent,
    );
    assert!(!detail.retryable && detail.hint.contains("max_turns"), "{detail:?}");
    // Files are no turns.
    let listed = v1::ListFilesRequest { sandbox: id.clone(), path: "/".into(), ..Default::default() };
    client.files.list(listed).await.expect("listed");
    assert_eq!(get(&mut client, &id).await.turns, Some(v1::SandboxTurns { max: 5, left: 0 }));
}

#[tokio::test]
async fn a_sandbox_without_a_budget_says_nothing_of_turns() {
    let place = Place::new().await;
    let mut client = place.client().await;
    let (id, _) = place.sandbox(&mut client).await;
    let done = run(&mut client, &id, "true").await.expect("ran");
    assert_eq!((done.turns_left, &done.warning[..]), (None, ""));
    let got = get(&mut client, &id).await;
    assert_eq!((got.turns, got.result), (None, None));
    for wrong in [
        v1::CreateSandboxRequest { max_turns: 1_000_001, ..Default::default() },
        v1::CreateSandboxRequest { result_path: "x".repeat(1025), ..Default::default() },
    ] {
        refused(client.sandboxes.create(wrong).await, Code::InvalidArgument, ErrorReason::LimitExceeded);
    }
    let nul = v1::CreateSandboxRequest { result_path: "a\0".into(), ..Default::default() };
    refused(client.sandboxes.create(nul).await, Code::InvalidArgument, ErrorReason::InvalidRequest);
}

#[tokio::test]
async fn every_way_to_run_something_is_a_turn() {
    let place = Place::new().await;
    let mut client = place.client().await;
    let (id, _) = place.sandbox_with(&mut client, budget(4)).await;
    let live = v1::ExecuteStart { request: Some(shell(&id, "true")), terminal: None, live_stdin: false };
    let (_, done) =
        Live::start(&mut client, live.clone()).await.expect("live").rest().await.expect("its end");
    assert_eq!(done.turns_left, Some(3));
    let job = started(&mut client, start(&id, "true")).await;
    let done = wait(&mut client, &id, &job).await.expect("ended");
    assert_eq!(done.turns_left, Some(2));
    // The interpreter's own program is none.
    let code = v1::RunCodeRequest { sandbox: id.clone(), code: "true".into(), ..Default::default() };
    let mut events = client.interpreter.run(code.clone()).await.expect("a run").into_inner();
    let mut end = None;
    while let Some(event) = in_time("an event", events.message()).await.expect("an event") {
        if let Some(Event::End(told)) = event.event {
            end = Some(told);
        }
    }
    let end = end.expect("an end");
    assert_eq!((end.turns_left, end.warning.contains("1 turn is left")), (Some(1), true));
    assert_eq!(run(&mut client, &id, "true").await.expect("ran").turns_left, Some(0));
    let spent = (Code::ResourceExhausted, ErrorReason::TurnsSpent);
    refused(client.executions.start(start(&id, "true")).await, spent.0, spent.1);
    refused(client.interpreter.run(code).await, spent.0, spent.1);
    let Err(status) = Live::start(&mut client, live).await else { panic!("it ran") };
    refused(Err::<tonic::Response<()>, _>(status), spent.0, spent.1);
}

#[tokio::test]
async fn what_did_not_run_and_what_is_repeated_is_no_turn() {
    let place = Place::new().await;
    let mut client = place.client().await;
    let (id, guest) = place.sandbox_with(&mut client, budget(2)).await;
    guest.refuse_next(ErrorCode::Busy);
    let busy = client.sandboxes.execute(shell(&id, "true")).await;
    refused(busy, Code::ResourceExhausted, ErrorReason::Busy);
    guest.refuse_next(ErrorCode::SpawnFailed);
    refused(
        client.executions.start(start(&id, "true")).await,
        Code::FailedPrecondition,
        ErrorReason::SpawnFailed,
    );
    let bad = v1::ExecuteRequest { output_limit: Some(1), ..shell(&id, "true") };
    refused(client.sandboxes.execute(bad).await, Code::InvalidArgument, ErrorReason::InvalidRequest);
    assert_eq!(left(&mut client, &id).await, 2);
    let keyed = v1::ExecuteRequest { idempotency_key: "k".into(), ..shell(&id, "true") };
    for replayed in [false, true, true] {
        let done = client.sandboxes.execute(keyed.clone()).await.expect("ran").into_inner();
        assert_eq!((done.replayed, done.turns_left), (replayed, Some(1)));
    }
    assert_eq!(left(&mut client, &id).await, 1);
}

#[tokio::test]
async fn a_pause_changes_no_turns_and_a_paused_guest_is_not_asked_for_the_result() {
    let place = Place::new().await;
    let mut client = place.client().await;
    let (id, _) = place.sandbox_with(&mut client, budget(9)).await;
    let result = |got: v1::Sandbox| got.result.expect("a result");
    let told = result(get(&mut client, &id).await);
    assert_eq!((&told.path[..], told.exists), ("out/report.html", Some(false)));
    run(&mut client, &id, "write out/report.html text").await.expect("ran");
    assert_eq!(result(get(&mut client, &id).await).exists, Some(true));
    client
        .sandboxes
        .pause(v1::PauseSandboxRequest { sandbox: id.clone(), ..v1::PauseSandboxRequest::default() })
        .await
        .expect("paused");
    let paused = in_time("an answer", get(&mut client, &id)).await;
    assert_eq!((paused.turns.expect("turns").left, result(paused).exists), (8, None));
    client.sandboxes.resume(v1::ResumeSandboxRequest { sandbox: id.clone() }).await.expect("resumed");
    let resumed = get(&mut client, &id).await;
    assert_eq!((resumed.turns.expect("turns").left, result(resumed).exists), (8, Some(true)));
    client.sandboxes.destroy(v1::DestroySandboxRequest { sandbox: id.clone() }).await.expect("destroyed");
    let gone = get(&mut client, &id).await;
    assert_eq!((gone.turns.expect("turns").left, result(gone).exists), (8, None));
}

#[tokio::test]
async fn who_runs_the_host_sees_the_turns_of_others_and_never_asks_their_guests() {
    let dir = tempfile::tempdir().expect("a directory");
    let file = dir.path().join("tokens.toml");
    let own = token(Path::new(&file), "own", "acme", &[Scope::Create, Scope::Exec], Quota::default());
    let admin = token(Path::new(&file), "admin", "host", &[Scope::Admin], Quota::default());
    let place = Place::with(Wishes { tokens: Some(file), ..Wishes::default() }).await;
    let mut client = place.client_with(Some(&own)).await;
    let (id, _) = place.sandbox_with(&mut client, budget(2)).await;
    let mut other = place.client_with(Some(&admin)).await;
    let seen = get(&mut other, &id).await;
    assert_eq!((seen.turns.expect("turns").left, seen.result.expect("a result").exists), (2, None));
}

#[tokio::test]
async fn an_end_has_its_code_and_codes_are_counted() {
    let place = Place::new().await;
    let mut client = place.client().await;
    let (id, _) = place.sandbox(&mut client).await;
    for (line, kind, subject, hint) in [
        ("kill 11", "crashed", "SIGSEGV", "segmentation fault"),
        ("kill 9", "killed", "SIGKILL", "signal"),
        ("oom", "out_of_memory", "", "at most 1 MiB were used"),
        (
            "echo one; err two; sleep 60000",
            "timed_out",
            "",
            "its stdout: one; the last lines of its stderr: two",
        ),
    ] {
        let timeout = millis(50).filter(|_| line.contains("sleep"));
        let request = v1::ExecuteRequest { timeout, ..shell(&id, line) };
        let done = client.sandboxes.execute(request).await.expect(line).into_inner();
        let found = done.diagnosis.unwrap_or_else(|| panic!("{line}: no diagnosis"));
        assert_eq!((&found.kind[..], &found.subject[..]), (kind, subject));
        assert!(found.hint.contains(hint), "{found:?}");
        let counted = format!("rekindle_diagnoses_total{{code=\"{kind}\"}} 1");
        let metrics = place.service.metrics().encode();
        assert!(metrics.lines().any(|there| there == counted), "{counted} is not in\n{metrics}");
    }
    let well = run(&mut client, &id, "true").await.expect("ran");
    assert_eq!(well.diagnosis, None);
}
