//! Shutting down: no new sandboxes, calls finish within the deadline, everything ends with a reason.

use std::time::Duration;

use rekindle::grpc::ServerHandle;
use rekindle_api::Code;
use rekindle_api::v1::{self, ErrorReason, SandboxEndReason};
use rekindle_fake_host::MEMORY_MIB;
use rekindle_test_support::wait::{PATIENCE, in_time, until};
use tonic_health::pb::HealthCheckRequest;
use tonic_health::pb::health_check_response::ServingStatus;
use tonic_health::pb::health_client::HealthClient;

use crate::place::{Place, Wishes, millis, refused, shell};

#[tokio::test]
async fn calls_under_way_finish_and_nothing_new_begins() {
    let place = Place::new().await;
    let mut client = place.client().await;
    let (id, guest) = place.sandbox(&mut client).await;
    let (other, _) = place.sandbox(&mut client).await;
    let call = tokio::spawn({
        let (mut client, request) = (client.clone(), shell(&id, "sleep 1000; echo done"));
        async move { client.sandboxes.execute(request).await }
    });
    until("running", || guest.running() == 1).await;
    let ending = tokio::spawn({
        let service = place.service.clone();
        async move { service.shut_down(PATIENCE).await }
    });
    until("draining", || place.service.overview().draining).await;
    let late = client.sandboxes.create(v1::CreateSandboxRequest::default()).await;
    let detail = refused(late, Code::Unavailable, ErrorReason::ShuttingDown);
    assert!(detail.retryable && !detail.hint.is_empty());
    let done = in_time("the call", call).await.expect("no panic").expect("it may finish").into_inner();
    assert_eq!(done.stdout.expect("stdout").text, "done\n");
    in_time("the end", ending).await.expect("no panic");
    for sandbox in [id, other] {
        let gone =
            client.sandboxes.get(v1::GetSandboxRequest { sandbox }).await.expect("a record").into_inner();
        assert_eq!(gone.end.expect("an end").reason(), SandboxEndReason::Shutdown);
    }
    assert!(place.host.engine.machines().iter().all(|machine| !machine.is_alive()));
}

#[tokio::test]
async fn at_the_end_of_the_drain_calls_are_cut_off_and_told_why() {
    let place = Place::with(Wishes { parked: 1, ..Wishes::default() }).await;
    let mut client = place.client().await;
    let (id, _) = place.sandbox(&mut client).await;
    let call = tokio::spawn({
        let (mut client, request) = (client.clone(), shell(&id, "sleep 600000"));
        async move { client.sandboxes.execute(request).await }
    });
    let watch = v1::WatchSandboxesRequest::default();
    let mut events = client.sandboxes.watch(watch).await.expect("watches").into_inner();
    until("under way", || place.host.guests.all().iter().any(|guest| guest.running() == 1)).await;
    in_time("the end", place.service.shut_down(Duration::from_millis(200))).await;
    let detail = refused(call.await.expect("no panic"), Code::Unavailable, ErrorReason::SandboxEnded);
    assert_eq!(detail.end.expect("how").reason(), SandboxEndReason::Shutdown);
    let event = in_time("an event", events.message()).await.expect("watches").expect("an event");
    assert_eq!(event.sandbox.expect("a sandbox").end.expect("an end").reason(), SandboxEndReason::Shutdown);
    assert_eq!(place.service.overview().pool.memory_mib.used, 0, "parked machines are gone too");
    assert!(place.host.engine.machines().iter().all(|machine| !machine.is_alive()));
}

#[tokio::test]
async fn a_creation_that_waits_for_room_is_refused_by_a_shutdown() {
    let pool = rekindle::pool::PoolConfig::new(MEMORY_MIB, 1_000_000);
    let place = Place::with(Wishes { pool, ..Wishes::default() }).await;
    let mut client = place.client().await;
    place.sandbox(&mut client).await;
    let waiting = tokio::spawn({
        let mut client = client.clone();
        let request =
            v1::CreateSandboxRequest { queue_timeout: millis(60_000), ..v1::CreateSandboxRequest::default() };
        async move { client.sandboxes.create(request).await }
    });
    until("queued", || place.service.overview().pool.queued == 1).await;
    in_time("the end", place.service.shut_down(Duration::ZERO)).await;
    let late = in_time("told", waiting).await.expect("no panic");
    refused(late, Code::Unavailable, ErrorReason::ShuttingDown);
    assert_eq!(place.service.overview().sandboxes, 0);
    assert!(place.host.engine.machines().iter().all(|machine| !machine.is_alive()));
}

#[tokio::test]
async fn health_is_served_and_told_to_look_elsewhere_and_a_stopped_server_ends() {
    let place = Place::new().await;
    let mut health = HealthClient::new(crate::raw::channel(&place.socket).await);
    let ask = || HealthCheckRequest { service: "rekindle.v1.Sandboxes".into() };
    let status = health.check(ask()).await.expect("healthy").into_inner().status();
    assert_eq!(status, ServingStatus::Serving);
    let handle: &ServerHandle = &place.handle;
    handle.drain().await;
    let status = health.check(ask()).await.expect("told").into_inner().status();
    assert_eq!(status, ServingStatus::NotServing);
    let mut client = place.client().await;
    place.sandbox(&mut client).await;
    handle.stop();
    let socket = place.socket.clone();
    in_time("the end", place.supervisor.serving).await.expect("no panic");
    assert!(!socket.exists(), "the socket is gone with the server");
}
