//! Watch, the timeline, and what is counted.

use rekindle::service::{Caller, Ledger};
use rekindle_api::v1::execution_outcome::Outcome;
use rekindle_api::v1::timeline_outcome::Outcome as Came;
use rekindle_api::v1::{self, SandboxEventKind};
use rekindle_api::{Code, Streaming};
use rekindle_fake_guest::Manner;
use rekindle_fake_host::MEMORY_MIB;
use rekindle_test_support::wait::{in_time, until};
use std::time::Duration;

use crate::place::{Place, Wishes, millis, output, shell};

async fn next(events: &mut Streaming<v1::SandboxEvent>) -> (SandboxEventKind, String) {
    let event = in_time("an event", events.message()).await.expect("watches").expect("an event");
    (event.kind(), event.sandbox.expect("a sandbox").id)
}

fn coloured(colour: &str) -> v1::CreateSandboxRequest {
    v1::CreateSandboxRequest { metadata: [("colour".into(), colour.into())].into(), ..Default::default() }
}

#[tokio::test]
async fn everything_that_happens_to_a_sandbox_is_told_in_order() {
    let place = Place::new().await;
    let mut client = place.client().await;
    let (old, _) = place.sandbox_with(&mut client, coloured("blue")).await;
    let request = v1::WatchSandboxesRequest { include_existing: true, ..Default::default() };
    let mut all = client.sandboxes.watch(request).await.expect("watches").into_inner();
    let red = v1::WatchSandboxesRequest { metadata: coloured("red").metadata, ..Default::default() };
    let mut red = client.sandboxes.watch(red).await.expect("watches").into_inner();
    let one = v1::WatchSandboxesRequest { sandbox: old.clone(), ..Default::default() };
    let mut one = client.sandboxes.watch(one).await.expect("watches").into_inner();
    assert_eq!(next(&mut all).await, (SandboxEventKind::Existing, old.clone()));

    let (new, _) = place.sandbox_with(&mut client, coloured("red")).await;
    client
        .sandboxes
        .pause(v1::PauseSandboxRequest { sandbox: new.clone(), ..Default::default() })
        .await
        .expect("paused");
    client.sandboxes.resume(v1::ResumeSandboxRequest { sandbox: new.clone() }).await.expect("resumed");
    let longer = v1::SetSandboxTimeoutRequest {
        sandbox: new.clone(),
        ttl: millis(60_000),
        idle_timeout: None,
        ..Default::default()
    };
    client.sandboxes.set_timeout(longer).await.expect("changed");
    client.sandboxes.destroy(v1::DestroySandboxRequest { sandbox: new.clone() }).await.expect("destroyed");
    for events in [&mut all, &mut red] {
        for kind in [
            SandboxEventKind::Created,
            SandboxEventKind::Paused,
            SandboxEventKind::Resumed,
            SandboxEventKind::TimeoutChanged,
            SandboxEventKind::Ended,
        ] {
            assert_eq!(next(events).await, (kind, new.clone()));
        }
    }
    client.sandboxes.destroy(v1::DestroySandboxRequest { sandbox: old.clone() }).await.expect("destroyed");
    assert_eq!(next(&mut one).await, (SandboxEventKind::Ended, old.clone()), "and nothing of the other");
    let ended =
        v1::WatchSandboxesRequest { sandbox: old.clone(), include_existing: true, ..Default::default() };
    let mut ended = client.sandboxes.watch(ended).await.expect("a record is there").into_inner();
    assert_eq!(next(&mut ended).await, (SandboxEventKind::Existing, old));
}

#[tokio::test]
async fn a_watcher_that_does_not_keep_up_is_told_so_and_holds_nobody_up() {
    let place = Place::new().await;
    let mut client = place.client().await;
    // Large events, so that what is under way on the connection is soon full.
    let metadata = (0..32).map(|number| (format!("key-{number}"), "x".repeat(1000))).collect();
    let (id, _) =
        place.sandbox_with(&mut client, v1::CreateSandboxRequest { metadata, ..Default::default() }).await;
    let mut slow = place.client().await;
    let mut events =
        slow.sandboxes.watch(v1::WatchSandboxesRequest::default()).await.expect("watches").into_inner();
    for _ in 0..2000 {
        let longer =
            place.service.set_timeout(&Caller::local(), &id, Some(Duration::from_secs(60)), None, None);
        longer.expect("changed");
        tokio::task::yield_now().await;
    }
    assert_eq!(output(&mut client, &id, "echo quick").await, "quick\n");
    let lagged = in_time("the end", async {
        loop {
            match events.message().await {
                Ok(event) => assert!(event.is_some(), "it must not end in silence"),
                Err(status) => return status,
            }
        }
    })
    .await;
    assert_eq!(lagged.code(), Code::OutOfRange, "{lagged:?}");
    let detail = crate::place::detail(&lagged);
    assert_eq!(detail.reason(), v1::ErrorReason::WatchLagged);
    assert!(detail.retryable && !detail.hint.is_empty());
    let told = format!("{}{}", lagged.message(), detail.hint);
    assert!(!told.contains(|c: char| c.is_ascii_digit()), "how many others had is nobody's business: {told}");
}

#[tokio::test]
async fn the_timeline_has_every_call_with_its_cost_and_outlives_the_sandbox() {
    let service = |config: &mut rekindle::service::ServiceConfig| config.timeline_entries = 6;
    let place = Place::with(Wishes { service, ..Wishes::default() }).await;
    let mut client = place.client().await;
    let (id, _) = place.sandbox(&mut client).await;
    let timeline = || v1::SandboxTimelineRequest { sandbox: id.clone(), ..Default::default() };
    client.sandboxes.execute(shell(&id, "true")).await.expect("ran");
    client.sandboxes.execute(shell(&id, "true")).await.expect("ran");
    let request = v1::ExecuteRequest { stdin: "12345".into(), ..shell(&id, "cat; fail 2") };
    client.sandboxes.execute(request).await.expect("ran");
    let missing = v1::StatFileRequest { sandbox: id.clone(), path: "missing".into(), user: String::new() };
    client.files.stat(missing).await.expect_err("not there");
    client.sandboxes.execute(shell(&id, "kill 9")).await.expect("ran");
    client
        .sandboxes
        .execute(v1::ExecuteRequest { timeout: millis(20), ..shell(&id, "sleep 60000") })
        .await
        .expect("ran");
    client
        .files
        .list(v1::ListFilesRequest { sandbox: id.clone(), ..Default::default() })
        .await
        .expect("listed");
    client.sandboxes.destroy(v1::DestroySandboxRequest { sandbox: id.clone() }).await.expect("destroyed");
    let told = client.sandboxes.timeline(timeline()).await.expect("a record").into_inner();
    let rows: Vec<_> = told
        .entries
        .iter()
        .map(|entry| {
            (
                entry.call.as_str(),
                entry.execution.as_str(),
                entry.subject.as_str(),
                entry.came().expect("known"),
            )
        })
        .collect();
    assert_eq!(told.dropped, 3);
    let ran = |outcome| Came::Execution(v1::ExecutionOutcome { outcome: Some(outcome) });
    assert_eq!(
        rows,
        [
            ("execute", "ex-3", "cat; fail 2", ran(Outcome::ExitCode(2))),
            ("stat", "", "missing", Came::Error(v1::ErrorReason::NotFound.into())),
            ("execute", "ex-4", "kill 9", ran(Outcome::Signal(9))),
            ("execute", "ex-5", "sleep 60000", ran(Outcome::TimedOut(v1::ExecutionTimedOut {}))),
            ("list_files", "", ".", Came::Done(v1::TimelineDone {})),
            ("destroy", "", "", Came::Done(v1::TimelineDone {})),
        ]
    );
    let cat = &told.entries[0];
    assert_eq!((cat.bytes_in, cat.bytes_out), (5, 5));
    assert!(cat.memory_peak_bytes > Some(0));
    let nothing = rekindle_api::Duration::default();
    assert!([cat.cpu_time, cat.duration].iter().all(|time| time.is_some_and(|time| time != nothing)));
    let at =
        |entry: &v1::TimelineEntry| rekindle_api::time::from_timestamp(entry.started_at.expect("a time"));
    assert!(told.entries.windows(2).all(|pair| at(&pair[0]) <= at(&pair[1])));
}

#[tokio::test]
async fn usage_is_summed_as_sandboxes_end_and_survives_in_the_ledger() {
    let dir = tempfile::tempdir().expect("a directory");
    let path = dir.path().join("usage.jsonl");
    let ledger = Ledger::open(&path).expect("a ledger");
    let place = Place::with(Wishes { ledger, ..Wishes::default() }).await;
    let mut client = place.client().await;
    let mut ids = Vec::new();
    for _ in 0..2 {
        let (id, _) = place.sandbox(&mut client).await;
        client.sandboxes.execute(shell(&id, "echo 12345")).await.expect("ran");
        client
            .sandboxes
            .execute(v1::ExecuteRequest { stdin: "123".into(), ..shell(&id, "true") })
            .await
            .expect("ran");
        ids.push(id);
    }
    let usage = || v1::HostUsageRequest { tenant: String::new() };
    let before = client.host.usage(usage()).await.expect("told").into_inner().tenants;
    assert_eq!((before[0].tenant.as_str(), before[0].running, before[0].sandboxes), ("local", 2, 0));
    client.sandboxes.destroy(v1::DestroySandboxRequest { sandbox: ids[0].clone() }).await.expect("destroyed");
    place.machine().crash();
    until("both ended", || place.service.overview().sandboxes == 0).await;
    let after = client.host.usage(usage()).await.expect("told").into_inner().tenants;
    let [local] = &after[..] else { panic!("{after:?}") };
    assert_eq!((local.running, local.sandboxes, local.executions), (0, 2, 4));
    assert_eq!((local.bytes_in, local.bytes_out), (6, 12));
    assert!(local.memory_mib_seconds >= 2 * MEMORY_MIB);
    // As the next supervisor would find it; the file itself is this one's as long as it lives.
    let found = dir.path().join("found.jsonl");
    std::fs::copy(&path, &found).expect("copied");
    let kept = Ledger::open(&found).expect("read again").sums();
    assert_eq!((kept["local"].sandboxes, kept["local"].executions, kept["local"].bytes_out), (2, 4, 12));
    assert_eq!(millis(kept["local"].running_millis), local.running_time);
}

#[tokio::test]
async fn a_guest_that_claims_to_have_printed_everything_does_not_spoil_the_sums() {
    let place = Place::new().await;
    place.host.guests.behave(Manner { claimed_output: Some(u64::MAX), ..Manner::default() });
    let mut client = place.client().await;
    let (id, _) = place.sandbox(&mut client).await;
    for _ in 0..2 {
        client.sandboxes.execute(shell(&id, "echo 12345")).await.expect("ran");
    }
    client.sandboxes.destroy(v1::DestroySandboxRequest { sandbox: id }).await.expect("destroyed");
    let usage = v1::HostUsageRequest { tenant: String::new() };
    let sums = client.host.usage(usage).await.expect("told").into_inner().tenants;
    assert_eq!((sums[0].sandboxes, sums[0].executions), (1, 2));
    assert!(sums[0].bytes_out < u64::MAX / 1_000_000, "{} bytes", sums[0].bytes_out);
}
