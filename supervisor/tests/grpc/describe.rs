//! Data that is described: what reaches the guest, and what is believed of its answer.

use bytes::Bytes;
use rekindle_api::v1::{self, ErrorReason};
use rekindle_api::{Code, Status, client::Client};
use rekindle_test_support::wait::in_time;
use serde_json::json;
use tonic::Response;

use crate::files::{file, upload};
use crate::place::{Place, refused};

/// What is changed of a request.
type Change = fn(&mut v1::DescribeFilesRequest);

/// Asks with a guest that answers so.
async fn describe(
    client: &mut Client,
    sandbox: &str,
    script: &str,
    change: impl FnOnce(&mut v1::DescribeFilesRequest),
) -> Result<Response<v1::DescribeFilesResponse>, Status> {
    upload(client, file(sandbox, ".describe"), &Bytes::copy_from_slice(script.as_bytes()))
        .await
        .expect("a script");
    let mut request = v1::DescribeFilesRequest {
        sandbox: sandbox.to_owned(),
        paths: vec!["data.json".into()],
        ..v1::DescribeFilesRequest::default()
    };
    change(&mut request);
    in_time("a description", client.files.describe(request)).await
}

#[tokio::test]
async fn data_is_described_by_a_program_in_the_guest() {
    let place = Place::new().await;
    let mut client = place.client().await;
    let (id, guest) = place.sandbox(&mut client).await;
    upload(&mut client, file(&id, "data.json"), &Bytes::from_static(b"[1]")).await.expect("data");
    let script = format!("echo {}", json!({"text": "data.json | JSON", "structure": {"files": [1]}}));
    let told = describe(&mut client, &id, &script, |_| {}).await.expect("described").into_inner();
    assert_eq!((told.text.as_str(), told.structure.as_str()), ("data.json | JSON", r#"{"files":[1]}"#));
    let ran = guest.executed();
    assert!(
        ran.last().expect("a program").starts_with("# Describes data in few words"),
        "{:.80}",
        ran.join("|")
    );
    // It is asked in JSON, on its standard input.
    let echoed = describe(&mut client, &id, "cat", |request| request.max_chars = 300).await;
    refused(echoed, Code::FailedPrecondition, ErrorReason::SpawnFailed);
    let timeline = v1::SandboxTimelineRequest { sandbox: id.clone(), ..Default::default() };
    let entries = client.sandboxes.timeline(timeline).await.expect("a past").into_inner().entries;
    let calls: Vec<_> = entries.iter().filter(|entry| entry.call == "describe").collect();
    assert_eq!(calls.len(), 2);
    assert_eq!(calls[0].subject, "data.json");
}

#[tokio::test]
async fn no_answer_of_a_guest_breaks_a_bound() {
    let place = Place::new().await;
    let mut client = place.client().await;
    let (id, _guest) = place.sandbox(&mut client).await;
    upload(&mut client, file(&id, "data.json"), &Bytes::from_static(b"[1]")).await.expect("data");
    let long = format!("echo {}", json!({"text": "\u{1b}x".repeat(1000), "structure": {}}));
    let told = describe(&mut client, &id, &long, |request| request.max_chars = 200)
        .await
        .expect("described")
        .into_inner();
    assert_eq!(told.text.chars().count(), 200);
    assert!(!told.text.contains('\u{1b}'));
    let large = format!("echo {}", json!({"text": "", "structure": {"x": "y".repeat(80_000)}}));
    for script in ["echo no answer", "true", "flood 5000000", "fail 1", "oom", "err x", large.as_str()] {
        let told = describe(&mut client, &id, script, |_| {}).await;
        refused(told, Code::FailedPrecondition, ErrorReason::SpawnFailed);
    }
    let late = describe(&mut client, &id, "sleep 600", |request| {
        request.timeout = Some(rekindle_api::Duration { seconds: 0, nanos: 200_000_000 });
    });
    refused(late.await, Code::DeadlineExceeded, ErrorReason::Deadline);
}

#[tokio::test]
async fn what_cannot_be_described_is_refused_with_a_reason() {
    let place = Place::new().await;
    let mut client = place.client().await;
    let (id, guest) = place.sandbox(&mut client).await;
    upload(&mut client, file(&id, "data.json"), &Bytes::from_static(b"[1]")).await.expect("data");
    let before = guest.executed().len();
    let cases: [(Change, Code, ErrorReason); 7] = [
        (|r| r.paths.clear(), Code::InvalidArgument, ErrorReason::InvalidRequest),
        (|r| r.paths = vec!["x".into(); 17], Code::InvalidArgument, ErrorReason::LimitExceeded),
        (|r| r.paths = vec!["missing".into()], Code::NotFound, ErrorReason::NotFound),
        (|r| r.paths.push("a\0b".into()), Code::InvalidArgument, ErrorReason::InvalidRequest),
        (|r| r.max_chars = 20_001, Code::InvalidArgument, ErrorReason::LimitExceeded),
        (|r| r.max_chars = 10, Code::InvalidArgument, ErrorReason::InvalidRequest),
        (|r| r.user = "nobody".into(), Code::InvalidArgument, ErrorReason::InvalidRequest),
    ];
    for (change, code, reason) in cases {
        let told = describe(&mut client, &id, "true", change).await;
        refused(told, code, reason);
    }
    assert_eq!(guest.executed().len(), before, "nothing of it has reached a program");
}
