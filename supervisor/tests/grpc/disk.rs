//! The host's disk: it is handed out once, and when somebody else fills it nothing new is begun and nothing is lost.

use std::fs;

use bytes::Bytes;
use rekindle::pool::PoolConfig;
use rekindle_api::Code;
use rekindle_api::v1::{self, ErrorReason};
use rekindle_fake_host::MEMORY_MIB;
use rekindle_test_support::small_disk::SmallDisk;
use rekindle_test_support::wait::until;

use crate::files::{download, file, read, upload};
use crate::place::{Place, Wishes, millis, refused};

/// Scratch disk of the test's template, in MiB.
const DISK: u64 = 16;

#[tokio::test]
async fn a_disk_that_somebody_else_fills_stops_new_work_and_is_told() {
    let small = match SmallDisk::mount(96) {
        Ok(small) => small,
        Err(reason) => rekindle_test_support::skip!("{reason}"),
    };
    let pool = PoolConfig { disk_reserve_mib: 32, ..PoolConfig::new(MEMORY_MIB * 64, 1_000_000) };
    let data = Some(small.path().join("data"));
    let place = Place::with(Wishes { pool, data, ..Wishes::default() }).await;
    let mut client = place.client().await;
    let (id, _) = place.sandbox(&mut client).await;
    let content = Bytes::from_static(b"what was promised");
    upload(&mut client, file(&id, "/tmp/before"), &content).await.expect("there is room");

    let filler = small.path().join("filler");
    fs::write(&filler, vec![1; 80 << 20]).expect("somebody writes");
    let told = refused(
        client.sandboxes.create(v1::CreateSandboxRequest::default()).await,
        Code::ResourceExhausted,
        ErrorReason::HostDiskFull,
    );
    assert!(told.retryable && told.retry_after.is_some(), "{told:?}");
    let kept = upload(&mut client, file(&id, "/tmp/after"), &content).await;
    refused(kept, Code::ResourceExhausted, ErrorReason::HostDiskFull);
    until("the status says so", || place.service.overview().pool.disk_low).await;
    let status = client.host.status(v1::HostStatusRequest {}).await.expect("a status").into_inner();
    assert!(status.disk_low && status.disk_free_bytes < 32 << 20, "{status:?}");
    let (found, _) = download(&mut client, read(&id, "/tmp/before", 0)).await.expect("it is there");
    assert_eq!(found, content, "what was there is as it was");

    fs::remove_file(&filler).expect("removed");
    upload(&mut client, file(&id, "/tmp/after"), &content).await.expect("there is room again");
    place.sandbox(&mut client).await;
    drop(place);
}

#[tokio::test]
async fn scratch_disks_are_promised_once() {
    let pool = PoolConfig { disk_budget_mib: DISK * 2, ..PoolConfig::new(MEMORY_MIB * 64, 1_000_000) };
    let place = Place::with(Wishes { pool, ..Wishes::default() }).await;
    let mut client = place.client().await;
    let (first, _) = place.sandbox(&mut client).await;
    place.sandbox(&mut client).await;
    let create = v1::CreateSandboxRequest { queue_timeout: millis(50), ..Default::default() };
    let full = client.sandboxes.create(create.clone()).await.expect_err("two disks are all there is");
    assert!(full.message().contains("all disk space is promised"), "{}", full.message());
    refused::<v1::Sandbox>(Err(full), Code::ResourceExhausted, ErrorReason::HostFull);
    let status = client.host.status(v1::HostStatusRequest {}).await.expect("a status").into_inner();
    let all = (DISK * 2) << 20;
    assert_eq!((status.disk_used_bytes, status.disk_budget_bytes), (all, Some(all)));
    client.sandboxes.destroy(v1::DestroySandboxRequest { sandbox: first }).await.expect("destroyed");
    client.sandboxes.create(create).await.expect("its disk is free again");
}
