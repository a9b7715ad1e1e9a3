//! Create, get, list, destroy.

use std::collections::BTreeMap;
use std::time::Duration;

use rekindle::config::tokens::{Quota, Scope};
use rekindle::engine::Operation;
use rekindle::engine::fake::Fault;
use rekindle_api::time::from_duration;
use rekindle_api::v1::{self, ErrorReason, SandboxStartKind, SandboxState};
use rekindle_api::{Code, client::Client};
use rekindle_fake_host::MEMORY_MIB;
use rekindle_test_support::wait::until;

use crate::place::{Place, Wishes, millis, output, refused, token};

fn named(pairs: &[(&str, &str)]) -> BTreeMap<String, String> {
    pairs.iter().map(|(key, value)| ((*key).to_owned(), (*value).to_owned())).collect()
}

async fn list(client: &mut Client, request: v1::ListSandboxesRequest) -> v1::ListSandboxesResponse {
    client.sandboxes.list(request).await.expect("listed").into_inner()
}

fn ids(page: &v1::ListSandboxesResponse) -> Vec<&str> {
    page.sandboxes.iter().map(|sandbox| sandbox.id.as_str()).collect()
}

#[tokio::test]
async fn a_created_sandbox_answers_is_described_and_ends() {
    let place = Place::new().await;
    let mut client = place.client().await;
    let request = v1::CreateSandboxRequest {
        template: "tiny".into(),
        limits: Some(v1::Limits { milli_cpus: 500, memory_bytes: 8 << 20, pids: 33 }),
        env: named(&[("WHO", "me")]),
        ttl: millis(60_000),
        idle_timeout: millis(30_000),
        metadata: named(&[("job", "7")]),
        queue_timeout: millis(5_000),
        request_id: String::new(),
        network: String::new(),
        on_timeout: v1::OnTimeout::Destroy.into(),
        ..Default::default()
    };
    let created = client.sandboxes.create(request).await.expect("created").into_inner();
    let guest = place.host.guests.all().pop().expect("a guest");
    let restore = guest.restores().pop().expect("restored");
    let limits = restore.limits.expect("limits");
    assert_eq!((limits.memory_bytes, limits.pids), (8 << 20, 33));
    assert_eq!(output(&mut client, &created.id, "env WHO").await, "me\n");

    let start = created.start.clone().expect("a start");
    assert_eq!(start.kind(), SandboxStartKind::Restored);
    let stages: Vec<_> = start.stages.iter().map(|stage| stage.name.as_str()).collect();
    assert_eq!((stages[0], stages[stages.len() - 1]), ("claim", "gate"), "{stages:?}");
    let time = |time: Option<rekindle_api::Duration>| from_duration(time.expect("a time")).expect("a time");
    let sum: Duration = start.stages.iter().map(|stage| time(stage.duration)).sum();
    assert!(sum <= time(start.total), "{start:?}");

    let got = client.sandboxes.get(v1::GetSandboxRequest { sandbox: created.id.clone() }).await;
    let got = got.expect("found").into_inner();
    assert_eq!(
        (got.state(), got.template.as_str(), got.tenant.as_str()),
        (SandboxState::Running, "tiny", "local")
    );
    assert_eq!(got.metadata, named(&[("job", "7")]));
    assert_eq!(got.idle_timeout, millis(30_000));
    assert!((59..=61).contains(&lives(&got)), "{got:?}");
    assert_eq!(got.limits, Some(v1::Limits { milli_cpus: 500, memory_bytes: 8 << 20, pids: 33 }));
    assert_eq!(got.usage.expect("usage").executions, 1);

    let machine = place.machine();
    for _ in 0..2 {
        let gone = client.sandboxes.destroy(v1::DestroySandboxRequest { sandbox: created.id.clone() }).await;
        let gone = gone.expect("destroyed, however often").into_inner();
        assert_eq!(gone.state(), SandboxState::Ended);
        assert_eq!(gone.end.expect("an end").reason(), v1::SandboxEndReason::Destroyed);
        assert!(!machine.is_alive(), "nothing is left of it");
    }
    let late = client.sandboxes.execute(crate::place::shell(&created.id, "true")).await;
    let detail = refused(late, Code::FailedPrecondition, ErrorReason::SandboxEnded);
    assert_eq!(detail.end.expect("how").reason(), v1::SandboxEndReason::Destroyed);
    assert!(!detail.retryable && !detail.hint.is_empty());
}

/// Seconds from its creation to its end.
fn lives(sandbox: &v1::Sandbox) -> i64 {
    let second = |at: Option<rekindle_api::Timestamp>| at.expect("a moment").seconds;
    second(sandbox.expires_at) - second(sandbox.created_at)
}

#[tokio::test]
async fn what_is_not_asked_for_has_the_servers_defaults() {
    let place = Place::with(Wishes {
        service: |config| {
            config.pids = 77;
            config.ttl = std::time::Duration::from_secs(120);
        },
        ..Wishes::default()
    })
    .await;
    let mut client = place.client().await;
    let created =
        client.sandboxes.create(v1::CreateSandboxRequest::default()).await.expect("created").into_inner();
    assert_eq!(created.template, "tiny");
    assert_eq!(
        created.limits,
        Some(v1::Limits { milli_cpus: 2000, memory_bytes: MEMORY_MIB << 20, pids: 77 })
    );
    assert_eq!(created.idle_timeout, None);
    assert!((119..=121).contains(&lives(&created)), "{created:?}");
    let restore = place.host.guests.all().pop().expect("a guest").restores().pop().expect("restored");
    let limits = restore.limits.expect("limits");
    assert_eq!((limits.memory_bytes, limits.pids, limits.upload_bytes), (0, 77, 1 << 30));
}

#[tokio::test]
async fn a_parked_machine_is_claimed_and_says_so() {
    let place = Place::with(Wishes { parked: 1, ..Wishes::default() }).await;
    until("parked", || place.service.overview().pool.templates[0].parked == 1).await;
    let mut client = place.client().await;
    let created =
        client.sandboxes.create(v1::CreateSandboxRequest::default()).await.expect("created").into_inner();
    let start = created.start.expect("a start");
    assert_eq!(start.kind(), SandboxStartKind::Parked);
    assert_eq!(start.stages.iter().map(|stage| stage.name.as_str()).collect::<Vec<_>>(), ["claim", "renew"]);
    assert_eq!(output(&mut client, &created.id, "echo hot").await, "hot\n");
}

#[tokio::test]
async fn a_list_is_filtered_by_metadata_and_read_page_by_page() {
    let place = Place::new().await;
    let mut client = place.client().await;
    let mut made = Vec::new();
    for number in 0..7 {
        let colour = if number % 2 == 0 { "red" } else { "blue" };
        let metadata = named(&[("colour", colour), ("number", &number.to_string())]);
        let request = v1::CreateSandboxRequest { metadata, ..v1::CreateSandboxRequest::default() };
        made.push(place.sandbox_with(&mut client, request).await.0);
    }
    let all = list(&mut client, v1::ListSandboxesRequest::default()).await;
    assert_eq!(ids(&all), made, "oldest first");
    assert_eq!(all.next_page_token, "");

    let (mut pages, mut token) = (Vec::new(), String::new());
    loop {
        let page_token = token.clone();
        let page = list(
            &mut client,
            v1::ListSandboxesRequest { page_size: 3, page_token, ..v1::ListSandboxesRequest::default() },
        )
        .await;
        pages.push(page.sandboxes.len());
        assert!(ids(&page).iter().enumerate().all(|(at, id)| *id == made[3 * (pages.len() - 1) + at]));
        token = page.next_page_token;
        if token.is_empty() {
            break;
        }
    }
    assert_eq!(pages, [3, 3, 1]);

    let red = v1::ListSandboxesRequest {
        metadata: named(&[("colour", "red")]),
        ..v1::ListSandboxesRequest::default()
    };
    assert_eq!(list(&mut client, red).await.sandboxes.len(), 4);
    let both = named(&[("colour", "red"), ("number", "1")]);
    let none =
        list(&mut client, v1::ListSandboxesRequest { metadata: both, ..v1::ListSandboxesRequest::default() })
            .await;
    assert!(none.sandboxes.is_empty(), "all pairs must match");

    client
        .sandboxes
        .destroy(v1::DestroySandboxRequest { sandbox: made[0].clone() })
        .await
        .expect("destroyed");
    assert_eq!(ids(&list(&mut client, v1::ListSandboxesRequest::default()).await), made[1..]);
    let ended = v1::ListSandboxesRequest { include_ended: true, ..v1::ListSandboxesRequest::default() };
    assert_eq!(ids(&list(&mut client, ended).await), made, "in its old place");

    let wrong = v1::ListSandboxesRequest { page_token: "7.sb".into(), ..v1::ListSandboxesRequest::default() };
    refused(client.sandboxes.list(wrong).await, Code::InvalidArgument, ErrorReason::InvalidRequest);
}

#[tokio::test]
async fn a_creation_that_is_given_up_leaves_nothing() {
    let place = Place::new().await;
    let mut client = place.client().await;
    let before = place.host.engine.machines().len();
    let loads = || place.host.engine.log().iter().filter(|operation| **operation == Operation::Load).count();
    let loaded = loads();
    place.host.engine.inject(Operation::Load, Fault::Hang);
    let creating = tokio::spawn({
        let mut client = client.clone();
        async move { client.sandboxes.create(v1::CreateSandboxRequest::default()).await.map(drop) }
    });
    // Not before the fault was played: it would meet the next creation.
    until("loading", || loads() > loaded).await;
    assert_eq!(place.service.overview().pool.memory_mib.used, MEMORY_MIB);
    creating.abort();
    until("given back", || place.service.overview().pool.memory_mib.used == 0).await;
    assert!(place.host.engine.machines()[before..].iter().all(|machine| !machine.is_alive()));
    assert!(list(&mut client, v1::ListSandboxesRequest::default()).await.sandboxes.is_empty());
    place.sandbox(&mut client).await;
}

#[tokio::test]
async fn the_host_describes_itself_and_its_templates() {
    let place = Place::new().await;
    let mut client = place.client().await;
    place.sandbox(&mut client).await;
    let templates =
        client.host.list_templates(v1::ListTemplatesRequest {}).await.expect("listed").into_inner();
    let [tiny] = &templates.templates[..] else { panic!("{templates:?}") };
    assert_eq!((tiny.name.as_str(), tiny.vcpus, tiny.memory_bytes), ("tiny", 2, MEMORY_MIB << 20));
    assert!(tiny.is_default && tiny.root_allowed);
    let rules = templates.rules.expect("rules");
    assert_eq!((rules.output_limit, rules.max_output_limit), (4_000, 100_000));
    assert_eq!(rules.execute_timeout, millis(60_000));
    assert_eq!((rules.max_ttl, rules.idle_timeout), (millis(86_400_000), None));
    assert!(templates.networks.is_empty());
    let status = client.host.status(v1::HostStatusRequest {}).await.expect("told").into_inner();
    assert_eq!((status.sandboxes, status.memory_used_bytes), (1, MEMORY_MIB << 20));
    assert_eq!(status.memory_budget_bytes, (64 * MEMORY_MIB) << 20);
    assert_eq!((status.engine.as_str(), &status.unenforced_limits[..]), ("fake 1", &["disk".to_owned()][..]));
    assert_eq!(status.pools[0].claims_restored, 1);
    assert!(!status.draining && status.started_at.is_some());
    assert_eq!(status.version, env!("CARGO_PKG_VERSION"));
}

#[tokio::test]
async fn a_create_that_is_repeated_makes_one_sandbox() {
    let place = Place::new().await;
    let client = place.client().await;
    let request = |id: &str| v1::CreateSandboxRequest { request_id: id.into(), ..Default::default() };
    // At once, and one after the other.
    let calls = (0..5).map(|_| {
        let mut client = client.clone();
        async move { client.sandboxes.create(request("a")).await.expect("created").into_inner().id }
    });
    let made = futures::future::join_all(calls).await;
    assert!(made.iter().all(|id| *id == made[0]), "{made:?}");
    let mut client = client;
    let again = client.sandboxes.create(request("a")).await.expect("the same").into_inner();
    assert_eq!((again.id.as_str(), again.state()), (made[0].as_str(), SandboxState::Running));
    assert_eq!(place.service.overview().sandboxes, 1);

    // Another request under the id of this one is refused; another id makes another sandbox.
    let other = v1::CreateSandboxRequest { metadata: named(&[("a", "b")]), ..request("a") };
    refused(client.sandboxes.create(other).await, Code::AlreadyExists, ErrorReason::KeyReused);
    let other = client.sandboxes.create(request("b")).await.expect("created").into_inner();
    assert_ne!(other.id, made[0]);

    // What the request made stays what it made, also once it has ended.
    client
        .sandboxes
        .destroy(v1::DestroySandboxRequest { sandbox: made[0].clone() })
        .await
        .expect("destroyed");
    let gone = client.sandboxes.create(request("a")).await.expect("the same").into_inner();
    assert_eq!((gone.id.as_str(), gone.state()), (made[0].as_str(), SandboxState::Ended));
    let long = client.sandboxes.create(request(&"x".repeat(129))).await;
    refused(long, Code::InvalidArgument, ErrorReason::LimitExceeded);
}

#[tokio::test]
async fn what_one_tenant_asked_for_under_an_id_is_none_of_another_tenants() {
    let dir = tempfile::tempdir().expect("a directory");
    let file = dir.path().join("tokens.toml");
    let tenants = ["one", "other"].map(|id| token(&file, id, id, &[Scope::Create], Quota::default()));
    let place = Place::with(Wishes { tokens: Some(file), ..Wishes::default() }).await;
    let request = || v1::CreateSandboxRequest { request_id: "a".into(), ..Default::default() };
    let mut made = std::collections::BTreeSet::new();
    for secret in tenants.iter().chain(&tenants) {
        let mut client = place.client_with(Some(secret)).await;
        made.insert(client.sandboxes.create(request()).await.expect("created").into_inner().id);
    }
    assert_eq!(made.len(), 2, "each has its own, however often it asks");
}

#[tokio::test]
async fn a_create_that_failed_or_was_given_up_may_be_repeated_with_its_id() {
    let place = Place::new().await;
    let mut client = place.client().await;
    let request = || v1::CreateSandboxRequest { request_id: "a".into(), ..Default::default() };
    place.host.engine.inject(Operation::Prespawn, Fault::Fail("no".into()));
    refused(client.sandboxes.create(request()).await, Code::Internal, ErrorReason::StartFailed);
    let loads = || place.host.engine.log().iter().filter(|operation| **operation == Operation::Load).count();
    let loaded = loads();
    place.host.engine.inject(Operation::Load, Fault::Hang);
    let mut given_up = client.clone();
    let given_up = tokio::spawn(async move { given_up.sandboxes.create(request()).await });
    until("loading", || loads() > loaded).await;
    given_up.abort();
    until("given back", || place.service.overview().pool.memory_mib.used == 0).await;
    let made = client.sandboxes.create(request()).await.expect("created").into_inner();
    assert_eq!(made.state(), SandboxState::Running);
    until("one is left", || place.service.overview().sandboxes == 1).await;
}
