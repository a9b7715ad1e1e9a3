//! Who waits for room, how long, and behind whom: one tenant's requests are not in everyone else's way.

use std::time::Duration;

use rekindle::config::tokens::{Quota, Scope};
use rekindle::pool::PoolConfig;
use rekindle_api::Code;
use rekindle_api::client::Client;
use rekindle_api::v1::{self, ErrorReason};
use rekindle_fake_host::MEMORY_MIB;
use rekindle_test_support::wait::until;
use tokio::task::JoinHandle;

use crate::place::{Place, Wishes, detail, millis, token};

/// The longest wait the server allows by default.
const LONGEST: u64 = 60_000;

fn create(milli_cpus: u32, wait: u64) -> v1::CreateSandboxRequest {
    let limits = Some(v1::Limits { milli_cpus, ..Default::default() });
    v1::CreateSandboxRequest { limits, queue_timeout: millis(wait), ..Default::default() }
}

type Created = Result<tonic::Response<v1::Sandbox>, rekindle_api::Status>;

fn in_the_background(client: &Client, request: v1::CreateSandboxRequest) -> JoinHandle<Created> {
    let mut client = client.clone();
    tokio::spawn(async move { client.sandboxes.create(request).await })
}

/// A supervisor with 2.5 processors to hand out, of which a tenant has one, and clients of that tenant and another.
async fn crowded(dir: &tempfile::TempDir, pool: PoolConfig) -> (Place, Client, Client) {
    let file = dir.path().join("tokens.toml");
    let greedy = token(&file, "greedy", "a", &[Scope::Create], Quota::default());
    let modest = token(&file, "modest", "b", &[Scope::Create], Quota::default());
    let place = Place::with(Wishes { pool, tokens: Some(file), ..Wishes::default() }).await;
    let mut greedy = place.client_with(Some(&greedy)).await;
    let modest = place.client_with(Some(&modest)).await;
    greedy.sandboxes.create(create(1_000, 0)).await.expect("there is room");
    (place, greedy, modest)
}

#[tokio::test]
async fn a_tenants_request_that_cannot_be_met_keeps_nobody_else_waiting() {
    let dir = tempfile::tempdir().expect("a directory");
    let pool = PoolConfig { max_queued: 1, ..PoolConfig::new(MEMORY_MIB * 64, 2_500) };
    let (place, greedy, mut modest) = crowded(&dir, pool).await;
    let waiting = in_the_background(&greedy, create(2_000, LONGEST));
    until("queued", || place.service.overview().pool.queued == 1).await;
    // The queue is as long as it may be, and nobody else has to stand in it.
    for mut client in [modest.clone(), place.client().await] {
        let created =
            tokio::time::timeout(Duration::from_millis(LONGEST / 2), client.sandboxes.create(create(500, 0)))
                .await;
        created.expect("without waiting for the other").expect("created");
    }
    assert!(!waiting.is_finished(), "it waits still");
    // One that would have to wait has no place; the operator has one of its own.
    let full = modest.sandboxes.create(create(2_000, LONGEST)).await.expect_err("the queue is full");
    assert_eq!(detail(&full).reason(), ErrorReason::QueueFull, "{full:?}");
    let operator = in_the_background(&place.client().await, create(2_000, LONGEST));
    until("the operator waits too", || place.service.overview().pool.queued == 2).await;
    waiting.abort();
    operator.abort();
}

#[tokio::test]
async fn one_tenant_does_not_fill_the_queue() {
    let dir = tempfile::tempdir().expect("a directory");
    let pool =
        PoolConfig { max_queued: 8, max_queued_per_tenant: 2, ..PoolConfig::new(MEMORY_MIB * 64, 2_500) };
    let (place, mut greedy, modest) = crowded(&dir, pool).await;
    let mut waiting: Vec<_> = (0..2).map(|_| in_the_background(&greedy, create(2_000, LONGEST))).collect();
    until("queued", || place.service.overview().pool.queued == 2).await;
    let third = greedy.sandboxes.create(create(2_000, LONGEST)).await.expect_err("two of it wait already");
    assert_eq!(third.code(), Code::ResourceExhausted);
    let told = detail(&third);
    assert_eq!(told.reason(), ErrorReason::QueueFull, "{third:?}");
    assert!(told.retryable && told.retry_after.is_some(), "{told:?}");
    waiting.push(in_the_background(&modest, create(2_000, LONGEST)));
    until("another tenant has a place", || place.service.overview().pool.queued == 3).await;
    waiting.iter().for_each(JoinHandle::abort);
}

#[tokio::test]
async fn nobody_may_ask_to_wait_longer_than_the_server_allows() {
    let place = Place::new().await;
    let mut client = place.client().await;
    for wait in [LONGEST + 1, 86_400_000, u64::MAX] {
        let refused = client.sandboxes.create(create(0, wait)).await.expect_err("too long");
        assert_eq!(refused.code(), Code::InvalidArgument);
        assert_eq!(detail(&refused).reason(), ErrorReason::LimitExceeded);
        assert!(refused.message().contains("at most 60s"), "{}", refused.message());
    }
    client.sandboxes.create(create(0, LONGEST)).await.expect("created");
}
