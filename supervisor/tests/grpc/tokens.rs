//! Tokens over time: their quotas, and files that change while the server serves.

use std::fs;
use std::time::Duration;

use jiff::Timestamp;
use rekindle::config::tokens::{self, NewToken, Quota, Scope};
use rekindle_api::v1::{self, ErrorReason, execute_event::Event};
use rekindle_api::{Code, Status, Streaming};
use rekindle_fake_host::{MEMORY_MIB, add_token, new_token};
use rekindle_test_support::wait::{PATIENCE, in_time, until, until_answer};

use crate::live::{Live, start};
use crate::place::{Place, Wishes, detail, millis, refused, shell, token};

const ALL: [Scope; 3] = [Scope::Create, Scope::Exec, Scope::Files];

#[tokio::test]
async fn quotas_bound_a_tenant_and_are_given_back() {
    let dir = tempfile::tempdir().expect("a directory");
    let file = dir.path().join("tokens.toml");
    let secret = |id: &str, quota| token(&file, id, id, &ALL, quota);
    let count = secret("count", Quota { max_sandboxes: Some(3), ..Quota::default() });
    let cpu = secret("cpu", Quota { max_milli_cpus: Some(2500), ..Quota::default() });
    let memory = secret("memory", Quota { max_memory_mib: Some(MEMORY_MIB + 10), ..Quota::default() });
    let disk = secret("disk", Quota { max_disk_mib: Some(16 + 10), ..Quota::default() });
    let place = Place::with(Wishes { tokens: Some(file.clone()), ..Wishes::default() }).await;
    let client = place.client_with(Some(&count)).await;
    let tries: Vec<_> = (0..12)
        .map(|_| {
            let mut client = client.clone();
            tokio::spawn(async move { client.sandboxes.create(v1::CreateSandboxRequest::default()).await })
        })
        .collect();
    let mut made = Vec::new();
    for answer in tries {
        match answer.await.expect("no panic") {
            Ok(created) => made.push(created.into_inner().id),
            Err(status) => assert_eq!(detail(&status).reason(), ErrorReason::QuotaExceeded, "{status:?}"),
        }
    }
    assert_eq!(made.len(), 3, "not one more, also at once");
    let mut client = client;
    client
        .sandboxes
        .destroy(v1::DestroySandboxRequest { sandbox: made[0].clone() })
        .await
        .expect("destroyed");
    client.sandboxes.create(v1::CreateSandboxRequest::default()).await.expect("there is room again");
    // What fails to start gives its part back too.
    client
        .sandboxes
        .destroy(v1::DestroySandboxRequest { sandbox: made[1].clone() })
        .await
        .expect("destroyed");
    place
        .host
        .engine
        .inject(rekindle::engine::Operation::Prespawn, rekindle::engine::fake::Fault::Fail("no".into()));
    client.sandboxes.create(v1::CreateSandboxRequest::default()).await.expect_err("it does not start");
    client.sandboxes.create(v1::CreateSandboxRequest::default()).await.expect("its place is free");

    let sized = |milli_cpus| v1::CreateSandboxRequest {
        limits: Some(v1::Limits { milli_cpus, ..Default::default() }),
        ..Default::default()
    };
    let mut client = place.client_with(Some(&cpu)).await;
    client.sandboxes.create(sized(2000)).await.expect("within");
    let more = client.sandboxes.create(sized(501)).await;
    let told = refused(more, Code::ResourceExhausted, ErrorReason::QuotaExceeded);
    assert!(told.retryable && !told.hint.is_empty());
    client.sandboxes.create(sized(500)).await.expect("exactly");
    for secret in [&memory, &disk] {
        let mut client = place.client_with(Some(secret)).await;
        client.sandboxes.create(v1::CreateSandboxRequest::default()).await.expect("within");
        let more = client.sandboxes.create(v1::CreateSandboxRequest::default()).await;
        refused(more, Code::ResourceExhausted, ErrorReason::QuotaExceeded);
    }
}

#[tokio::test]
async fn tokens_are_read_again_while_serving_and_a_bad_file_changes_nothing() {
    let dir = tempfile::tempdir().expect("a directory");
    let file = dir.path().join("tokens.toml");
    let first = token(&file, "first", "acme", &ALL, Quota::default());
    let wishes = Wishes { tokens: Some(file.clone()), socket_requires_token: true, ..Wishes::default() };
    let place = Place::with(wishes).await;
    let mut anyone = place.client().await;
    let refusal = anyone.sandboxes.list(v1::ListSandboxesRequest::default()).await;
    refused(refusal, Code::Unauthenticated, ErrorReason::Unauthenticated);
    let mut client = place.client_with(Some(&first)).await;
    place.sandbox(&mut client).await;
    let second = token(&file, "second", "acme", &ALL, Quota::default());
    tokens::remove(&file, &"first".parse().expect("an id")).expect("removed");
    let mut newer = place.client_with(Some(&second)).await;
    let listed = until_answer("read again", async || {
        newer.sandboxes.list(v1::ListSandboxesRequest::default()).await.ok()
    })
    .await;
    assert_eq!(listed.into_inner().sandboxes.len(), 1, "the tenant's, whichever token made it");
    let refusal = client.sandboxes.list(v1::ListSandboxesRequest::default()).await;
    refused(refusal, Code::Unauthenticated, ErrorReason::Unauthenticated);
    fs::write(&file, "this is no list of tokens").expect("written");
    place.authenticator.reload();
    // Longer than between two looks at the file: nothing tells of one that is not taken.
    tokio::time::sleep(Duration::from_millis(1200)).await;
    newer.sandboxes.list(v1::ListSandboxesRequest::default()).await.expect("the old ones count");
    newer.sandboxes.list(v1::ListSandboxesRequest::default()).await.expect("and still do");
}

fn unauthenticated(status: &Status) {
    assert_eq!(status.code(), Code::Unauthenticated, "{status:?}");
    assert_eq!(detail(status).reason(), ErrorReason::Unauthenticated);
}

/// How a watch ends.
async fn end(mut watch: Streaming<v1::SandboxEvent>) -> Status {
    in_time("the end of the watch", async {
        loop {
            match watch.message().await {
                Ok(event) => assert!(event.is_some(), "it must not end in silence"),
                Err(status) => return status,
            }
        }
    })
    .await
}

#[tokio::test]
async fn a_removed_tokens_calls_end_and_those_of_others_go_on() {
    let dir = tempfile::tempdir().expect("a directory");
    let file = dir.path().join("tokens.toml");
    let gone = token(&file, "gone", "acme", &ALL, Quota::default());
    let kept = token(&file, "kept", "acme", &ALL, Quota::default());
    let place = Place::with(Wishes { tokens: Some(file.clone()), ..Wishes::default() }).await;
    let mut client = place.client_with(Some(&gone)).await;
    let mut other = place.client_with(Some(&kept)).await;
    let (id, guest) = place.sandbox(&mut client).await;
    let watch =
        client.sandboxes.watch(v1::WatchSandboxesRequest::default()).await.expect("watches").into_inner();
    let mut others =
        other.sandboxes.watch(v1::WatchSandboxesRequest::default()).await.expect("watches").into_inner();
    let live = Live::start(&mut client, start(&id, "cat", true)).await.expect("started");
    // Nobody reads what this one prints.
    let mut stalled_caller = place.client_with(Some(&gone)).await;
    let stalled = Live::start(&mut stalled_caller, start(&id, "flood 100000000", false)).await.expect("runs");
    let mut once = client.clone();
    let line = shell(&id, "sleep 600000");
    let once = tokio::spawn(async move { once.sandboxes.execute(line).await });
    let mut going_on =
        Live::start(&mut other, start(&id, "echo on; sleep 600000", false)).await.expect("runs");
    until("all run", || guest.running() == 4).await;

    tokens::remove(&file, &"gone".parse().expect("an id")).expect("removed");
    unauthenticated(&end(watch).await);
    unauthenticated(&live.refused().await);
    unauthenticated(&in_time("the end of a call", once).await.expect("no panic").expect_err("revoked"));
    until("its programs are killed", || guest.running() == 1).await;
    let lines = place.audit();
    let ended = lines.iter().filter(|line| line["reason"] == "token_revoked" && line["decision"] == "denied");
    let mut methods: Vec<_> = ended.map(|line| line["method"].as_str().expect("a method")).collect();
    methods.sort_unstable();
    assert_eq!(methods, ["Sandboxes/Execute", "Sandboxes/ExecuteStream", "Sandboxes/ExecuteStream"]);
    drop(stalled);

    assert_eq!(going_on.next().await.expect("goes on"), Some(Event::Stdout("on\n".into())));
    let longer = v1::SetSandboxTimeoutRequest {
        sandbox: id,
        ttl: millis(60_000),
        idle_timeout: None,
        ..Default::default()
    };
    other.sandboxes.set_timeout(longer).await.expect("changed");
    in_time("an event", others.message()).await.expect("goes on").expect("an event");
}

#[tokio::test]
async fn a_watch_ends_when_its_token_expires() {
    let dir = tempfile::tempdir().expect("a directory");
    let file = dir.path().join("tokens.toml");
    let expires = Some(Timestamp::now() + Duration::from_secs(5));
    let secret = add_token(&file, &NewToken { expires, ..new_token("short", "acme", &ALL) });
    let place = Place::with(Wishes { tokens: Some(file), ..Wishes::default() }).await;
    let mut client = place.client_with(Some(&secret)).await;
    match client.sandboxes.watch(v1::WatchSandboxesRequest::default()).await {
        Ok(watch) => unauthenticated(&end(watch.into_inner()).await),
        // A machine that takes longer than that to get here.
        Err(late) => unauthenticated(&late),
    }
}

#[tokio::test]
async fn strangers_do_not_fill_the_audit_log() {
    let dir = tempfile::tempdir().expect("a directory");
    let file = dir.path().join("tokens.toml");
    token(&file, "only", "acme", &ALL, Quota::default());
    let wishes = Wishes { tokens: Some(file), socket_requires_token: true, ..Wishes::default() };
    let place = Place::with(wishes).await;
    let left_out = |lines: &[serde_json::Value]| -> u64 {
        lines.iter().filter_map(|line| line["left_out"].as_u64()).sum()
    };
    let mut sent = 0;
    let deadline = tokio::time::Instant::now() + PATIENCE;
    while left_out(&place.audit()) == 0 {
        assert!(tokio::time::Instant::now() < deadline, "every call has its line");
        // One connection is not read for ever.
        let stranger = place.client().await;
        let calls =
            (0..100).map(|_| {
                let mut stranger = stranger.clone();
                async move {
                    stranger.sandboxes.list(v1::ListSandboxesRequest::default()).await.expect_err("refused")
                }
            });
        for refusal in futures::future::join_all(calls).await {
            unauthenticated(&refusal);
            sent += 1;
        }
    }
    until("every call has a line or is counted", || {
        let lines = place.audit();
        let told = lines.iter().filter(|line| line["reason"] == "no_token").count() as u64;
        told < sent && told + left_out(&lines) == sent
    })
    .await;
}
