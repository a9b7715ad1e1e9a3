//! Create, get, list, destroy.

use std::collections::HashMap;

use rekindle::engine::Operation;
use rekindle::engine::fake::Fault;
use rekindle_api::v1::{self, ErrorReason, SandboxState, StartKind};
use rekindle_api::{Code, client::Client};

use crate::place::{MIB, Place, Wishes, output, refused, until};

fn named(pairs: &[(&str, &str)]) -> HashMap<String, String> {
    pairs.iter().map(|(key, value)| ((*key).to_owned(), (*value).to_owned())).collect()
}

async fn list(client: &mut Client, request: v1::ListRequest) -> v1::ListResponse {
    client.sandboxes.list(request).await.expect("listed").into_inner()
}

fn ids(page: &v1::ListResponse) -> Vec<&str> {
    page.sandboxes.iter().map(|sandbox| sandbox.id.as_str()).collect()
}

#[tokio::test]
async fn a_created_sandbox_answers_is_described_and_ends() {
    let place = Place::new().await;
    let mut client = place.client().await;
    let request = v1::CreateRequest {
        template: "tiny".into(),
        limits: Some(v1::Limits { cpu_millis: 500, memory_bytes: 8 << 20, pids: 33 }),
        env: named(&[("WHO", "me")]),
        ttl_millis: 60_000,
        idle_timeout_millis: 30_000,
        metadata: named(&[("job", "7")]),
        queue_millis: 5_000,
    };
    let created = client.sandboxes.create(request).await.expect("created").into_inner();
    let guest = place.guests.all().pop().expect("a guest");
    let restore = guest.restores().pop().expect("restored");
    let limits = restore.limits.expect("limits");
    assert_eq!((limits.memory_bytes, limits.pids), (8 << 20, 33));
    assert_eq!(output(&mut client, &created.id, "env WHO").await, "me\n");

    let start = created.start.clone().expect("a start");
    assert_eq!(start.kind(), StartKind::Restored);
    let stages: Vec<_> = start.stages.iter().map(|stage| stage.name.as_str()).collect();
    assert_eq!((stages[0], stages[stages.len() - 1]), ("claim", "gate"), "{stages:?}");
    let sum: u64 = start.stages.iter().map(|stage| stage.micros).sum();
    assert!(sum <= start.total_micros, "{start:?}");

    let got = client.sandboxes.get(v1::GetRequest { sandbox: created.id.clone() }).await;
    let got = got.expect("found").into_inner();
    assert_eq!(
        (got.state(), got.template.as_str(), got.tenant.as_str()),
        (SandboxState::Running, "tiny", "local")
    );
    assert_eq!(got.metadata, named(&[("job", "7")]));
    assert_eq!(got.idle_timeout_millis, 30_000);
    let lives = got.expires_at_millis - got.created_at_millis;
    assert!((59_000..=61_000).contains(&lives), "{lives}");
    assert_eq!(got.limits, Some(v1::Limits { cpu_millis: 500, memory_bytes: 8 << 20, pids: 33 }));
    assert_eq!(got.usage.expect("usage").executions, 1);

    let machine = place.machine();
    for _ in 0..2 {
        let gone = client.sandboxes.destroy(v1::DestroyRequest { sandbox: created.id.clone() }).await;
        let gone = gone.expect("destroyed, however often").into_inner();
        assert_eq!(gone.state(), SandboxState::Ended);
        assert_eq!(gone.end.expect("an end").reason(), v1::EndReason::Destroyed);
        assert!(!machine.is_alive(), "nothing is left of it");
    }
    let late = client.sandboxes.execute(crate::place::shell(&created.id, "true")).await;
    let detail = refused(late, Code::FailedPrecondition, ErrorReason::SandboxEnded);
    assert_eq!(detail.end.expect("how").reason(), v1::EndReason::Destroyed);
    assert!(!detail.retryable && !detail.hint.is_empty());
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
    let created = client.sandboxes.create(v1::CreateRequest::default()).await.expect("created").into_inner();
    assert_eq!(created.template, "tiny");
    assert_eq!(created.limits, Some(v1::Limits { cpu_millis: 2000, memory_bytes: MIB << 20, pids: 77 }));
    assert_eq!(created.idle_timeout_millis, 0);
    let lives = created.expires_at_millis - created.created_at_millis;
    assert!((119_000..=121_000).contains(&lives), "{lives}");
    let restore = place.guests.all().pop().expect("a guest").restores().pop().expect("restored");
    let limits = restore.limits.expect("limits");
    assert_eq!((limits.memory_bytes, limits.pids, limits.upload_bytes), (0, 77, 1 << 30));
}

#[tokio::test]
async fn a_parked_machine_is_claimed_and_says_so() {
    let place = Place::with(Wishes { parked: 1, ..Wishes::default() }).await;
    until("parked", || place.service.overview().pool.templates[0].parked == 1).await;
    let mut client = place.client().await;
    let created = client.sandboxes.create(v1::CreateRequest::default()).await.expect("created").into_inner();
    let start = created.start.expect("a start");
    assert_eq!(start.kind(), StartKind::Parked);
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
        let request = v1::CreateRequest { metadata, ..v1::CreateRequest::default() };
        made.push(place.sandbox_with(&mut client, request).await.0);
    }
    let all = list(&mut client, v1::ListRequest::default()).await;
    assert_eq!(ids(&all), made, "oldest first");
    assert_eq!(all.next_page_token, "");

    let (mut pages, mut token) = (Vec::new(), String::new());
    loop {
        let page_token = token.clone();
        let page =
            list(&mut client, v1::ListRequest { page_size: 3, page_token, ..v1::ListRequest::default() })
                .await;
        pages.push(page.sandboxes.len());
        assert!(ids(&page).iter().enumerate().all(|(at, id)| *id == made[3 * (pages.len() - 1) + at]));
        token = page.next_page_token;
        if token.is_empty() {
            break;
        }
    }
    assert_eq!(pages, [3, 3, 1]);

    let red = v1::ListRequest { metadata: named(&[("colour", "red")]), ..v1::ListRequest::default() };
    assert_eq!(list(&mut client, red).await.sandboxes.len(), 4);
    let both = named(&[("colour", "red"), ("number", "1")]);
    let none = list(&mut client, v1::ListRequest { metadata: both, ..v1::ListRequest::default() }).await;
    assert!(none.sandboxes.is_empty(), "all pairs must match");

    client.sandboxes.destroy(v1::DestroyRequest { sandbox: made[0].clone() }).await.expect("destroyed");
    assert_eq!(ids(&list(&mut client, v1::ListRequest::default()).await), made[1..]);
    let ended = v1::ListRequest { include_ended: true, ..v1::ListRequest::default() };
    assert_eq!(ids(&list(&mut client, ended).await), made, "in its old place");

    let wrong = v1::ListRequest { page_token: "7.sb".into(), ..v1::ListRequest::default() };
    refused(client.sandboxes.list(wrong).await, Code::InvalidArgument, ErrorReason::InvalidRequest);
}

#[tokio::test]
async fn a_creation_that_is_given_up_leaves_nothing() {
    let place = Place::new().await;
    let mut client = place.client().await;
    let before = place.engine.machines().len();
    let loads = || place.engine.log().iter().filter(|operation| **operation == Operation::Load).count();
    let loaded = loads();
    place.engine.inject(Operation::Load, Fault::Hang);
    let creating = tokio::spawn({
        let mut client = client.clone();
        async move { client.sandboxes.create(v1::CreateRequest::default()).await.map(drop) }
    });
    // Not before the fault was played: it would meet the next creation.
    until("loading", || loads() > loaded).await;
    assert_eq!(place.service.overview().pool.memory_mib.used, MIB);
    creating.abort();
    until("given back", || place.service.overview().pool.memory_mib.used == 0).await;
    assert!(place.engine.machines()[before..].iter().all(|machine| !machine.is_alive()));
    assert!(list(&mut client, v1::ListRequest::default()).await.sandboxes.is_empty());
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
    assert_eq!((tiny.name.as_str(), tiny.vcpus, tiny.memory_bytes), ("tiny", 2, MIB << 20));
    assert!(tiny.is_default);
    let status = client.host.status(v1::StatusRequest {}).await.expect("told").into_inner();
    assert_eq!((status.sandboxes, status.memory_used_bytes), (1, MIB << 20));
    assert_eq!(status.memory_budget_bytes, (64 * MIB) << 20);
    assert_eq!((status.engine.as_str(), &status.unenforced_limits[..]), ("fake 1", &["disk".to_owned()][..]));
    assert_eq!(status.pools[0].claims_restored, 1);
    assert!(!status.draining && status.started_at_millis > 0 && !status.version.is_empty());
}
