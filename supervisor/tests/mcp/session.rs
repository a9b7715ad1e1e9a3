//! A session over standard input and output: what it survives, and that its end leaves nothing.

use nix::sys::signal::Signal;
use rekindle_api::v1::CreateSandboxRequest;
use rekindle_test_support::wait::{in_time, until};
use serde_json::json;

use crate::place::Place;

#[tokio::test]
async fn its_end_ends_what_it_made_and_nothing_else() {
    let place = Place::new().await;
    let mut client = place.client().await;
    let theirs =
        client.sandboxes.create(CreateSandboxRequest::default()).await.expect("made").into_inner().id;
    let mut session = place.session(&[]).await;
    session.sandbox().await;
    let ended = session.sandbox().await;
    session.done("sandbox_end", json!({"sandbox": ended})).await;
    // One that was not made here may be used, and stays.
    session.done("sandbox_run", json!({"sandbox": theirs, "code": "true"})).await;
    assert_eq!(place.alive(), 2);
    let (code, said) = session.end().await;
    assert_eq!((code, said.as_str()), (Some(0), ""));
    assert_eq!(place.alive(), 1, "nothing of it is left when it has ended");
}

#[tokio::test]
async fn a_sandbox_that_is_still_being_made_when_the_input_ends_is_ended_too() {
    let place = Place::new().await;
    let mut session = place.session(&[]).await;
    for _ in 0..5 {
        session.begin("tools/call", json!({"name": "sandbox_create", "arguments": {}})).await;
    }
    assert_eq!(session.end().await.0, Some(0));
    assert_eq!(place.alive(), 0);
}

#[tokio::test]
async fn its_end_is_part_of_the_traces_that_its_sandboxes_were_made_in() {
    let place = Place::new().await;
    let (one, other) = ("4bf92f3577b34da6a3ce929d0e0e4736", "5bf92f3577b34da6a3ce929d0e0e4736");
    let mut session = place.session(&["--trace", other, "--step", "usual"]).await;
    let meta = json!({"traceparent": format!("00-{one}-00f067aa0ba902b7-01"), "rekindle/step": "own"});
    let call = json!({"name": "sandbox_create", "arguments": {}, "_meta": meta});
    session.ask("tools/call", call).await;
    session.sandbox().await;
    assert_eq!(session.end().await.0, Some(0));
    let mut client = place.client().await;
    for (trace, told) in [(one, ["own create", "own destroy"]), (other, ["usual create", "usual destroy"])] {
        let request =
            rekindle_api::v1::SandboxTimelineRequest { sandbox: String::new(), trace: trace.into() };
        let entries = client.sandboxes.timeline(request).await.expect("told").into_inner().entries;
        let calls: Vec<_> = entries.iter().map(|entry| format!("{} {}", entry.step, entry.call)).collect();
        assert_eq!(calls, told);
    }
}

#[tokio::test]
async fn a_signal_ends_it_as_the_end_of_its_input_does() {
    let place = Place::new().await;
    let mut session = place.session(&[]).await;
    session.sandbox().await;
    session.signal(Signal::SIGTERM);
    assert_eq!(session.wait().await.0, Some(0));
    assert_eq!(place.alive(), 0);
}

#[tokio::test]
async fn a_client_that_never_begins_has_asked_for_nothing() {
    let place = Place::new().await;
    assert_eq!(place.silent_session(&[]).end().await, (Some(0), String::new()));
    let mut half = place.silent_session(&[]);
    half.send(b"{\"jsonrpc\": \"2.0\", \"id\": 1, \"method\": \"init").await;
    assert_eq!(half.end().await.0, Some(0));
}

#[tokio::test]
async fn garbage_and_long_lines_do_not_end_it() {
    let place = Place::new().await;
    let mut session = place.session(&[]).await;
    let sandbox = session.sandbox().await;
    session.send(b"not json\n\n[]\n{}\n{\"jsonrpc\":\"2.0\"}\nnull\n\xff\xfe\n").await;
    session
        .send(b"{\"jsonrpc\":\"2.0\",\"id\":77,\"method\":\"tools/call\",\"params\":{\"name\":5}}\n")
        .await;
    // Ten megabytes in one line are a file like any other.
    let content = "x".repeat(10 << 20);
    let write = json!({"sandbox": sandbox, "path": "big", "content": content});
    assert_eq!(session.done("sandbox_write", write).await, "wrote 10485760 bytes to big");
    // More than is read of one line is thrown away.
    let mut line = vec![b'x'; 20 << 20];
    line.push(b'\n');
    session.send(&line).await;
    session.done("sandbox_run", json!({"sandbox": sandbox, "code": "true"})).await;
    session.send(&[b"{\"a\":".repeat(100_000), b"\n".to_vec()].concat()).await;
    session.done("sandbox_run", json!({"sandbox": sandbox, "code": "true"})).await;
    assert_eq!(session.end().await.0, Some(0));
    assert_eq!(place.alive(), 0);
}

#[tokio::test]
async fn a_call_that_is_cancelled_kills_its_program() {
    let place = Place::new().await;
    let mut session = place.session(&[]).await;
    let sandbox = session.sandbox().await;
    let arguments = json!({"sandbox": sandbox, "code": "sleep 600000"});
    let id = session.begin("tools/call", json!({"name": "sandbox_run", "arguments": arguments})).await;
    let guest = place.host.guests.all().pop().expect("a guest");
    until("it runs", || !guest.executed().is_empty()).await;
    let cancel = json!({"jsonrpc": "2.0", "method": "notifications/cancelled", "params": {"requestId": id}});
    session.send(format!("{cancel}\n").as_bytes()).await;
    place.cancelled(&sandbox).await;
    // The session goes on.
    session.done("sandbox_run", json!({"sandbox": sandbox, "code": "true"})).await;
}

#[tokio::test]
async fn without_a_server_it_says_how_to_start_one() {
    let place = Place::new().await;
    for command in [&["mcp"][..], &["prompt"]] {
        let mut words = command.to_vec();
        words.extend(["--server", "unix:/nonexistent/rekindle.sock"]);
        let ended = in_time("the end", place.rekindle(&words).output()).await.expect("run");
        let said = String::from_utf8_lossy(&ended.stderr).into_owned();
        assert_eq!(ended.status.code(), Some(125));
        assert!(said.contains("no server runs at") && said.contains("`rekindle serve`"), "{said}");
        assert!(ended.stdout.is_empty(), "standard output is the protocol's");
    }
    let ended = place.rekindle(&["mcp", "--template", "missing"]).output().await.expect("run");
    let said = String::from_utf8_lossy(&ended.stderr).into_owned();
    assert!(!ended.status.success() && said.contains("hint: there are: bare, tiny"), "{said}");
    let ended = place.rekindle(&["mcp", "--network", "missing"]).output().await.expect("run");
    assert!(String::from_utf8_lossy(&ended.stderr).contains("hint: there are build"), "{ended:?}");
}
