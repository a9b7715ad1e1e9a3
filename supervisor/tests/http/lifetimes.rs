//! How long sandboxes live, and what pauses and resumes them.

use std::collections::BTreeMap;
use std::time::Duration;

use bytes::Bytes;
use http::StatusCode;
use rekindle::agent::Program;
use rekindle::service::{Caller, ExecuteSpec, SandboxState, Scopes};
use rekindle_test_support::wait::{in_time, until};
use serde_json::{Value, json};

use crate::place::{Place, Wishes};

async fn info(place: &Place, id: &str) -> Value {
    place.get(&format!("/sandboxes/{id}")).await.body
}

async fn until_paused(place: &Place, id: &str) {
    place.until_sandbox(id, |sandbox| sandbox.state == SandboxState::Paused).await;
    assert_eq!(info(place, id).await["state"], "paused");
}

fn owner() -> Caller {
    Caller {
        tenant: "acme".into(),
        token: Some("good".into()),
        scopes: Scopes { admin: false, ..Scopes::ALL },
        ..Caller::local()
    }
}

fn shell(line: &str) -> ExecuteSpec {
    ExecuteSpec {
        program: Program::Shell(line.into()),
        user: rekindle::agent::GuestUser::User,
        plain_interpreter: false,
        env: BTreeMap::new(),
        cwd: String::new(),
        timeout: None,
        memory_bytes: 0,
        output_limit: None,
        clock: rekindle::agent::ExecutionClock::default(),
    }
}

#[tokio::test]
async fn an_end_told_twice_is_the_same_and_connecting_never_shortens_it() {
    let place = Place::new().await;
    let (id, _) = place.sandbox(json!({"timeout": 300})).await;
    let connect = format!("/sandboxes/{id}/connect");
    let before = info(&place, &id).await["endAt"].clone();
    assert_eq!(place.post(&connect, &json!({"timeout": 10})).await.status, StatusCode::OK);
    assert_eq!(info(&place, &id).await["endAt"], before);
    assert_eq!(place.post(&connect, &json!({"timeout": 600})).await.status, StatusCode::OK);
    let after = info(&place, &id).await["endAt"].clone();
    assert!(after.as_str() > before.as_str(), "{before} {after}");

    let timeout = format!("/sandboxes/{id}/timeout");
    assert_eq!(place.post(&timeout, &json!({"timeout": 30})).await.status, StatusCode::NO_CONTENT);
    assert!(info(&place, &id).await["endAt"].as_str() < before.as_str(), "a timeout may be shorter");
    place.post(&timeout, &json!({"timeout": 1_000_000})).await.refused(400);
    place.post(&timeout, &json!({})).await.refused(400);
}

#[tokio::test]
async fn the_longest_life_bounds_what_can_be_added_and_is_no_reason_to_refuse() {
    let place = Place::with(Wishes {
        service: |config| config.max_ttl = Duration::from_secs(600),
        ..Wishes::default()
    })
    .await;
    let (id, _) = place.sandbox(json!({"timeout": 60})).await;
    let longest = json!({"timeout": 600});
    for verb in ["timeout", "connect"] {
        let done = place.post(&format!("/sandboxes/{id}/{verb}"), &longest).await;
        assert!(done.status.is_success(), "{done:?}");
    }
}

#[tokio::test]
async fn a_timeout_of_nothing_ends_it_now() {
    let place = Place::new().await;
    let (id, _) = place.sandbox(json!({})).await;
    let done = place.post(&format!("/sandboxes/{id}/timeout"), &json!({"timeout": 0})).await;
    assert_eq!(done.status, StatusCode::NO_CONTENT);
    place.until_sandbox(&id, |sandbox| sandbox.end.is_some()).await;
    assert_eq!(place.get(&format!("/sandboxes/{id}")).await.status, StatusCode::NOT_FOUND);
}

#[tokio::test]
async fn a_pause_is_made_once_and_connecting_ends_it() {
    let place = Place::new().await;
    let (id, made) = place.sandbox(json!({})).await;
    let pause = format!("/sandboxes/{id}/pause");
    assert_eq!(place.post(&pause, &json!({})).await.status, StatusCode::NO_CONTENT);
    assert_eq!(info(&place, &id).await["state"], "paused");
    place.post(&pause, &json!({})).await.refused(409);
    let resumed = place.post(&format!("/v2/sandboxes/{id}/connect"), &json!({"timeout": 60})).await;
    assert_eq!(resumed.status, StatusCode::CREATED, "one that was paused");
    assert_eq!(resumed.body["envdAccessToken"], made["envdAccessToken"]);
    assert_eq!(info(&place, &id).await["state"], "running");
    // What clients of an older API send.
    assert_eq!(place.ask("POST", &pause, &[("x-api-key", &place.key)], "").await.status, 204);
    let resumed = place.post(&format!("/sandboxes/{id}/resume"), &json!({"timeout": 60})).await;
    assert_eq!(resumed.status, StatusCode::CREATED);
    // Without its memory it is booted again.
    let without = place.post(&pause, &json!({"memory": false})).await;
    assert_eq!(without.status, StatusCode::NO_CONTENT);
    let resumed = place.post(&format!("/v2/sandboxes/{id}/connect"), &json!({"timeout": 60})).await;
    assert_eq!(resumed.status, StatusCode::CREATED);
    assert_eq!(resumed.body["envdAccessToken"], made["envdAccessToken"]);
    assert_eq!(info(&place, &id).await["state"], "running");
}

#[tokio::test]
async fn a_sandbox_that_pauses_at_its_timeout_is_there_when_somebody_connects() {
    let place = Place::new().await;
    let lifecycle = json!({"autoPause": true, "autoResume": {"enabled": false}});
    let (id, _) = place.sandbox(lifecycle).await;
    let told = info(&place, &id).await["lifecycle"].clone();
    assert_eq!(told, json!({"onTimeout": "pause", "autoResume": false}));
    for _ in 0..2 {
        place.post(&format!("/sandboxes/{id}/timeout"), &json!({"timeout": 0})).await;
        until_paused(&place, &id).await;
        let connected = place.post(&format!("/sandboxes/{id}/connect"), &json!({"timeout": 300})).await;
        assert_eq!(connected.status, StatusCode::CREATED, "{connected:?}");
        assert_eq!(info(&place, &id).await["state"], "running", "it has its time again");
    }
    assert_eq!(place.delete(&format!("/sandboxes/{id}")).await.status, StatusCode::NO_CONTENT);
}

#[tokio::test]
async fn a_pause_that_a_call_is_in_the_way_of_is_not_taken_for_one_that_was_made() {
    let place = Place::new().await;
    let (id, _) = place.sandbox(json!({})).await;
    let guest = place.host.guests.all().pop().expect("a guest");
    let caller = owner();
    let refusal = tokio::select! {
        ended = place.service.execute(&caller, &id, shell("sleep 600000"), Bytes::new(), "") => panic!("{ended:?}"),
        refusal = async {
            until("it runs", || guest.running() > 0).await;
            place.post(&format!("/sandboxes/{id}/pause"), &json!({})).await
        } => refusal,
    };
    // 409 is what the SDKs take for a sandbox that is paused already.
    assert!(refusal.refused(503).contains("under way"), "{refusal:?}");
    assert_eq!(info(&place, &id).await["state"], "running");
}

#[tokio::test]
async fn a_call_under_way_is_not_cut_off_by_the_pause_at_the_timeout() {
    let place = Place::new().await;
    let (id, _) = place.sandbox(json!({"autoPause": true})).await;
    let guest = place.host.guests.all().pop().expect("a guest");
    let caller = owner();
    let running = place.service.execute(&caller, &id, shell("sleep 1500; echo done"), Bytes::new(), "");
    let meanwhile = async {
        until("it runs", || guest.running() > 0).await;
        place.post(&format!("/sandboxes/{id}/timeout"), &json!({"timeout": 0})).await
    };
    let (done, set) = in_time("its end", async { tokio::join!(running, meanwhile) }).await;
    assert_eq!(set.status, StatusCode::NO_CONTENT);
    assert_eq!(done.expect("it was not cut off").finished.stdout.text, "done\n");
    until_paused(&place, &id).await;
}
