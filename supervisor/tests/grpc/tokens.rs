//! Tokens over time: their quotas, and files that change while the server serves.

use std::fs;
use std::time::Duration;

use rekindle::config::tokens::{self, Quota, Scope};
use rekindle_api::Code;
use rekindle_api::v1::{self, ErrorReason};

use crate::place::{MIB, Place, Wishes, detail, in_time, refused, token};

const ALL: [Scope; 3] = [Scope::Create, Scope::Exec, Scope::Files];

#[tokio::test]
async fn quotas_bound_a_tenant_and_are_given_back() {
    let dir = tempfile::tempdir().expect("a directory");
    let file = dir.path().join("tokens.toml");
    let secret = |id: &str, quota| token(&file, id, id, &ALL, quota);
    let count = secret("count", Quota { max_sandboxes: Some(3), ..Quota::default() });
    let cpu = secret("cpu", Quota { max_cpu_millis: Some(2500), ..Quota::default() });
    let memory = secret("memory", Quota { max_memory_mib: Some(MIB + 10), ..Quota::default() });
    let disk = secret("disk", Quota { max_disk_mib: Some(16 + 10), ..Quota::default() });
    let place = Place::with(Wishes { tokens: Some(file.clone()), ..Wishes::default() }).await;
    let client = place.client_with(Some(&count)).await;
    let tries: Vec<_> = (0..12)
        .map(|_| {
            let mut client = client.clone();
            tokio::spawn(async move { client.sandboxes.create(v1::CreateRequest::default()).await })
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
    client.sandboxes.destroy(v1::DestroyRequest { sandbox: made[0].clone() }).await.expect("destroyed");
    client.sandboxes.create(v1::CreateRequest::default()).await.expect("there is room again");
    // What fails to start gives its part back too.
    client.sandboxes.destroy(v1::DestroyRequest { sandbox: made[1].clone() }).await.expect("destroyed");
    place
        .engine
        .inject(rekindle::engine::Operation::Prepare, rekindle::engine::fake::Fault::Fail("no".into()));
    client.sandboxes.create(v1::CreateRequest::default()).await.expect_err("it does not start");
    client.sandboxes.create(v1::CreateRequest::default()).await.expect("its place is free");

    let sized = |cpu_millis| v1::CreateRequest {
        limits: Some(v1::Limits { cpu_millis, ..Default::default() }),
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
        client.sandboxes.create(v1::CreateRequest::default()).await.expect("within");
        let more = client.sandboxes.create(v1::CreateRequest::default()).await;
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
    let refusal = anyone.sandboxes.list(v1::ListRequest::default()).await;
    refused(refusal, Code::Unauthenticated, ErrorReason::Unauthenticated);
    let mut client = place.client_with(Some(&first)).await;
    place.sandbox(&mut client).await;
    let second = token(&file, "second", "acme", &ALL, Quota::default());
    tokens::remove(&file, &"first".parse().expect("an id")).expect("removed");
    let mut newer = place.client_with(Some(&second)).await;
    let listed = in_time("read again", async {
        loop {
            if let Ok(listed) = newer.sandboxes.list(v1::ListRequest::default()).await {
                return listed.into_inner();
            }
            tokio::time::sleep(Duration::from_millis(50)).await;
        }
    })
    .await;
    assert_eq!(listed.sandboxes.len(), 1, "the tenant's, whichever token made it");
    let refusal = client.sandboxes.list(v1::ListRequest::default()).await;
    refused(refusal, Code::Unauthenticated, ErrorReason::Unauthenticated);
    fs::write(&file, "this is no list of tokens").expect("written");
    tokio::time::sleep(Duration::from_millis(1200)).await;
    newer.sandboxes.list(v1::ListRequest::default()).await.expect("the old ones count");
    newer.sandboxes.list(v1::ListRequest::default()).await.expect("and still do");
}
