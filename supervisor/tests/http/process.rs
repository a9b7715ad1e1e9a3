//! Programs: started, attached to, written to, and ended.

use http::StatusCode;
use rekindle::service::Caller;
use rekindle_test_support::wait::in_time;
use serde_json::json;

use crate::data_plane::{Ended, Sandbox, framed, process};
use crate::place::{Place, decisions};

#[tokio::test]
async fn a_program_tells_its_start_its_output_and_its_end() {
    let place = Place::new().await;
    let sandbox = Sandbox::new(&place).await;
    let (pid, events) = sandbox.start("echo one; err two; fail 3").await;
    assert!(pid > 0);
    let (output, end, ended) = events.rest().await;
    assert_eq!(output, b"one\ntwo\n");
    let right = json!({
        "exitCode": 3, "exited": true, "status": "exit status 3", "error": "exit status 3",
    });
    assert_eq!((end, ended), (Some(right), Ended::Whole(json!({}))));
    let (_, events) = sandbox.start("kill 9").await;
    let (_, end, _) = events.rest().await;
    let right = json!({"exitCode": -1, "status": "signal: killed", "error": "signal: killed"});
    assert_eq!(end, Some(right));
    assert_eq!(sandbox.pids().await, [0; 0], "what has ended is not listed");
    let allowed = ("allowed".to_owned(), String::new());
    assert_eq!(decisions(&place, "Process/Start"), [allowed.clone(), allowed]);
}

#[tokio::test]
async fn a_program_outlives_its_stream_and_is_found_by_its_pid() {
    let place = Place::new().await;
    let sandbox = Sandbox::new(&place).await;
    let (pid, events) = sandbox.start("cat").await;
    drop(events);
    assert_eq!(sandbox.pids().await, [pid]);
    let me = json!({"pid": pid});
    let mut events = sandbox.stream("process.Process/Connect", &json!({"process": me}), &[]).await;
    assert_eq!(events.event().await, Ok(json!({"start": {"pid": pid}})));
    let input = json!({"process": {"pid": pid.to_string()}, "input": {"stdin": "aGk="}});
    assert_eq!(sandbox.done("process.Process/SendInput", &input).await, json!({}));
    assert_eq!(events.event().await, Ok(json!({"data": {"stdout": "aGk="}})));
    let stream = [
        framed(&json!({"start": {"process": me}})),
        framed(&json!({"keepalive": {}})),
        framed(&json!({"data": {"input": {"stdin": "IQ"}}})),
    ];
    let mut sent = sandbox.stream_raw("process.Process/StreamInput", stream.concat(), &[]).await;
    assert_eq!(sent.next().await, Ok(json!({})));
    assert_eq!(sent.next().await, Err(Ended::Whole(json!({}))));
    assert_eq!(events.event().await, Ok(json!({"data": {"stdout": "IQ=="}})));
    sandbox.done("process.Process/CloseStdin", &json!({"process": me})).await;
    let (_, end, _) = events.rest().await;
    assert_eq!(end, Some(json!({"exited": true, "status": "exit status 0"})));
}

#[tokio::test]
async fn a_fresh_terminal_is_typed_on_once_somebody_reads() {
    let place = Place::new().await;
    let sandbox = Sandbox::new(&place).await;
    let owner = Caller { tenant: "acme".into(), ..Caller::local() };
    let typed = async |line: &str| {
        let size = json!({"size": {"cols": 80, "rows": 24}});
        let message = json!({"process": process(line), "pty": size});
        let (pid, events) = sandbox.start_with(message, &[]).await;
        let input = json!({"process": {"pid": pid}, "input": {"pty": "aGk="}});
        sandbox.done("process.Process/SendInput", &input).await;
        let jobs = place.service.detached(&owner, &sandbox.id).expect("a list");
        let printed = jobs.iter().find(|job| u64::from(job.pid) == pid).expect("it runs").stdout_bytes;
        sandbox.done("process.Process/CloseStdin", &json!({"process": {"pid": pid}})).await;
        (printed, events.rest().await.0)
    };
    // A shell says that it reads by its prompt.
    let (printed, output) = typed("sleep 300; echo $; cat").await;
    assert!(printed >= 2, "the answer came before the prompt");
    assert_eq!(output, b"$\nhi");
    // Who says nothing is not waited for without end.
    assert_eq!(typed("cat").await.1, b"hi");
}

#[tokio::test]
async fn what_is_not_there_is_not_found() {
    let place = Place::new().await;
    let sandbox = Sandbox::new(&place).await;
    let (pid, events) = sandbox.start("true").await;
    events.rest().await;
    for process in [json!({"pid": 999_999}), json!({"pid": pid}), json!({"tag": "none"})] {
        let kill = json!({"process": process, "signal": "SIGNAL_SIGKILL"});
        sandbox.refused("process.Process/SendSignal", &kill, "not_found").await;
        let message = json!({"process": process});
        let events = sandbox.stream("process.Process/Connect", &message, &[]).await;
        assert_eq!(events.status, StatusCode::OK);
        assert_eq!(events.error().await.0, "not_found");
    }
    sandbox.refused("process.Process/SendSignal", &json!({}), "invalid_argument").await;
    sandbox.refused("process.Process/Unknown", &json!({}), "unimplemented").await;
}

#[tokio::test]
async fn a_tag_names_a_program_and_a_signal_ends_it() {
    let place = Place::new().await;
    let sandbox = Sandbox::new(&place).await;
    let message = json!({"process": process("cat"), "tag": "mine", "stdin": true});
    let (pid, events) = sandbox.start_with(message, &[]).await;
    let listed = sandbox.done("process.Process/List", &json!({})).await;
    let one = &listed["processes"][0];
    assert_eq!(
        (&one["tag"], &one["pid"], &one["config"]["cmd"]),
        (&json!("mine"), &json!(pid), &json!("cat"))
    );
    let tag = json!({"tag": "mine"});
    for wrong in [json!("SIGNAL_SIGHUP"), json!(1), json!(null)] {
        let message = json!({"process": tag, "signal": wrong});
        sandbox.refused("process.Process/SendSignal", &message, "invalid_argument").await;
    }
    sandbox.done("process.Process/SendSignal", &json!({"process": tag, "signal": "SIGNAL_SIGKILL"})).await;
    drop(events);
}

#[tokio::test]
async fn the_time_its_caller_gives_it_is_the_programs() {
    let place = Place::new().await;
    let sandbox = Sandbox::new(&place).await;
    let message = json!({"process": process("cat")});
    let (_, events) = sandbox.start_with(message, &[("connect-timeout-ms", "50")]).await;
    assert_eq!(events.error().await.0, "deadline_exceeded");
    assert_eq!(sandbox.pids().await, [0; 0], "it was killed");
    // Of who only looks on it is the stream's.
    let (pid, _events) = sandbox.start("cat").await;
    let connect = json!({"process": {"pid": pid}});
    let late = sandbox.stream("process.Process/Connect", &connect, &[("connect-timeout-ms", "50")]).await;
    assert_eq!(late.error().await.0, "deadline_exceeded");
    assert_eq!(sandbox.pids().await, [pid]);
}

#[tokio::test]
async fn a_slow_reader_misses_nothing() {
    let place = Place::new().await;
    let sandbox = Sandbox::new(&place).await;
    let bytes = 8 << 20;
    let (pid, events) = sandbox.start(&format!("flood {bytes}")).await;
    // Much more than any buffer holds: the program waits for its reader.
    assert_eq!(sandbox.pids().await, [pid]);
    let (output, end, ended) = in_time("the end", events.rest()).await;
    assert_eq!((output.len(), ended), (bytes, Ended::Whole(json!({}))));
    assert!(end.is_some());
}

#[tokio::test]
async fn silence_is_broken_as_often_as_was_asked_for() {
    let place = Place::new().await;
    let sandbox = Sandbox::new(&place).await;
    let message = json!({"process": process("cat")});
    let (_, mut events) = sandbox.start_with(message, &[("keepalive-ping-interval", "1")]).await;
    assert_eq!(events.event().await, Ok(json!({"keepalive": {}})));
}

#[tokio::test]
async fn users_and_requests_that_make_no_sense_are_refused() {
    let place = Place::new().await;
    let sandbox = Sandbox::new(&place).await;
    let start = json!({"process": process("true")});
    // "nobody:"
    let nobody = [("authorization", "Basic bm9ib2R5Og==")];
    let (code, message) = sandbox.stream("process.Process/Start", &start, &nobody).await.error().await;
    assert_eq!((code.as_str(), message.as_str()), ("unauthenticated", "invalid username: 'nobody'"));
    let whole = framed(&start);
    let (huge, many) = ([&[0, 255, 255, 255, 255], &whole[..]].concat(), [&whole[..], &whole].concat());
    for bytes in
        [&whole[..whole.len() - 1], b"", &huge, &many, &framed(&json!([]))[..], b"\0\0\0\0\x01x", b"\x01"]
    {
        let events = sandbox.stream_raw("process.Process/Start", bytes.to_vec(), &[]).await;
        assert_eq!(events.error().await.0, "invalid_argument", "{bytes:?}");
    }
    for message in [json!({}), json!({"process": {}}), json!({"process": process("true"), "pty": {}})] {
        let events = sandbox.stream("process.Process/Start", &message, &[]).await;
        assert_eq!(events.error().await.0, "invalid_argument", "{message}");
    }
    let late = sandbox.stream("process.Process/Start", &start, &[("connect-timeout-ms", "soon")]).await;
    assert_eq!(late.error().await.0, "invalid_argument");
    assert_eq!(sandbox.pids().await, [0; 0], "nothing was started");
}

#[tokio::test]
async fn a_stream_breaks_off_with_its_sandbox_which_is_then_said_to_be_gone() {
    let place = Place::new().await;
    let sandbox = Sandbox::new(&place).await;
    let (_, events) = sandbox.start("cat").await;
    let health = async || place.ask("GET", "/health", &[("e2b-sandbox-id", &sandbox.id)], "").await;
    assert_eq!(health().await.status, StatusCode::NO_CONTENT);
    place.delete(&format!("/sandboxes/{}", sandbox.id)).await;
    assert_eq!(events.rest().await, (Vec::new(), None, Ended::Cut));
    for answer in [health().await, sandbox.unary("process.Process/List", &json!({})).await] {
        assert!(answer.refused(502).contains("was not found"), "{answer:?}");
    }
}

#[tokio::test]
async fn a_stream_ends_with_its_token_and_its_program_goes_on() {
    let place = Place::new().await;
    let sandbox = Sandbox::new(&place).await;
    let scopes = [rekindle::config::tokens::Scope::Create, rekindle::config::tokens::Scope::Exec];
    let second = place.token("second", "acme", &scopes).await;
    let path = format!("/sandboxes/{}/connect", sandbox.id);
    let connected = place.post_as(&second, &path, &json!({"timeout": 60})).await;
    let token = connected.body["envdAccessToken"].as_str().expect("a token").to_owned();
    assert_ne!(token, sandbox.token);
    let other = Sandbox { place: &place, id: sandbox.id.clone(), token };
    let (pid, events) = other.start("cat").await;
    place.remove_token("second", &second).await;
    assert_eq!(events.rest().await, (Vec::new(), None, Ended::Cut));
    assert_eq!(other.unary("process.Process/List", &json!({})).await.status, StatusCode::UNAUTHORIZED);
    assert_eq!(sandbox.pids().await, [pid], "the sandbox is its tenant's");
}
