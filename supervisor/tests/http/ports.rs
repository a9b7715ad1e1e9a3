//! What programs in a sandbox serve, as visitors see it: requests go in, answers come back, and nobody gets where they
//! must not.

use std::time::Duration;

use bytes::Bytes;
use http::{Request, Response, StatusCode};
use http_body_util::{BodyExt as _, Full};
use hyper::body::Incoming;
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper_util::rt::TokioIo;
use rekindle::config::tokens::Scope;
use rekindle::http::FrontOptions;
use rekindle::service::{Caller, CreateSpec, SandboxState, Scopes};
use rekindle_fake_guest::Guest;
use rekindle_test_support::wait::in_time;
use serde_json::{Value, json};
use tokio::io::{AsyncRead, AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpStream;

use crate::place::{Answer, Place, Wishes};

const PORT: &str = "8000";

/// The guest of the sandbox that was made last.
pub fn guest(place: &Place) -> Guest {
    place.host.guests.all().pop().expect("a guest")
}

/// A program that tells what it was asked.
pub fn serve(guest: &Guest, port: u16) {
    let mut connections = guest.listen(port);
    tokio::spawn(async move {
        while let Some(connection) = connections.recv().await {
            let served = http1::Builder::new().serve_connection(TokioIo::new(connection), service_fn(tell));
            tokio::spawn(served);
        }
    });
}

async fn tell(request: Request<Incoming>) -> Result<Response<Full<Bytes>>, hyper::Error> {
    let (parts, body) = request.into_parts();
    let body = body.collect().await?.to_bytes();
    let headers: serde_json::Map<String, Value> = parts
        .headers
        .iter()
        .map(|(name, value)| (name.to_string(), value.to_str().expect("text").into()))
        .collect();
    let told = json!({
        "method": parts.method.as_str(), "uri": parts.uri.to_string(), "headers": headers,
        "body": String::from_utf8_lossy(&body),
    });
    let mut response = Response::new(Full::new(told.to_string().into()));
    *response.status_mut() = StatusCode::IM_A_TEAPOT;
    response.headers_mut().insert("x-told", "yes".parse().expect("a value"));
    response.headers_mut().insert("keep-alive", "timeout=7".parse().expect("a value"));
    Ok(response)
}

async fn visit(place: &Place, id: &str, more: &[(&str, &str)]) -> Answer {
    let headers = [&[("e2b-sandbox-id", id), ("e2b-sandbox-port", PORT)], more].concat();
    place.ask("GET", "/a/path?with=query", &headers, "").await
}

/// Reads until this has arrived.
async fn until(from: &mut (impl AsyncRead + Unpin), what: &str) -> String {
    let mut seen = Vec::new();
    let reading = async {
        while !String::from_utf8_lossy(&seen).contains(what) {
            let mut piece = [0; 1024];
            let read = from.read(&mut piece).await.expect("bytes");
            assert!(read > 0, "an end before {what:?}: {:?}", String::from_utf8_lossy(&seen));
            seen.extend_from_slice(&piece[..read]);
        }
    };
    in_time(what, reading).await;
    String::from_utf8_lossy(&seen).into_owned()
}

/// A connection on which a request to the port has been begun with these lines.
async fn begun(place: &Place, id: &str, method: &str, lines: &str) -> TcpStream {
    let mut stream = TcpStream::connect(place.address).await.expect("connected");
    let head = format!(
        "{method} /raw HTTP/1.1\r\nhost: here.test\r\ne2b-sandbox-id: {id}\r\ne2b-sandbox-port: {PORT}\r\n{lines}\r\n"
    );
    stream.write_all(head.as_bytes()).await.expect("sent");
    stream
}

#[tokio::test]
async fn a_program_gets_the_request_and_the_visitor_its_answer() {
    let place = Place::with(Wishes {
        front: FrontOptions { domain: Some("box.test".into()), ..FrontOptions::default() },
        ..Wishes::default()
    })
    .await;
    let (id, made) = place.sandbox(json!({})).await;
    serve(&guest(&place), 8000);
    let traffic = made["trafficAccessToken"].as_str().expect("a token");
    let envd = made["envdAccessToken"].as_str().expect("a token");
    let secrets = [
        ("x-api-key", place.key.as_str()),
        ("x-access-token", envd),
        ("e2b-traffic-access-token", traffic),
        ("x-own", "kept"),
    ];
    let answer = visit(&place, &id, &secrets).await;
    assert_eq!(answer.status, StatusCode::IM_A_TEAPOT, "the program's own status: {answer:?}");
    assert_eq!(answer.header("x-told"), Some("yes"));
    assert_eq!(answer.header("keep-alive"), None);
    assert_eq!(answer.body["uri"], "/a/path?with=query");
    let got = &answer.body["headers"];
    assert_eq!((&got["x-own"], &got["host"]), (&json!("kept"), &json!("sandboxes.test")));
    assert_eq!((&got["x-forwarded-for"], &got["x-forwarded-proto"]), (&json!("127.0.0.1"), &json!("http")));
    let all = got.to_string();
    for secret in [place.key.as_str(), envd, traffic, &id] {
        assert!(!all.contains(secret), "{secret} in {all}");
    }

    let host = format!("8000-{id}.box.test");
    let named = place.ask("POST", "/", &[("host", &host)], "a body").await;
    assert_eq!((&named.body["method"], &named.body["body"]), (&json!("POST"), &json!("a body")), "{named:?}");
    assert_eq!(named.body["headers"]["host"], host.as_str());
    let audited = place.audit();
    let lines: Vec<_> = audited.iter().filter(|line| line["method"] == "Port/Request").collect();
    assert_eq!(lines.len(), 2);
    assert_eq!((&lines[0]["tenant"], &lines[0]["sandbox"]), (&json!("acme"), &json!(id)));
    assert_eq!((&lines[1]["tenant"], &lines[1]["sandbox"]), (&Value::Null, &json!(id)), "anybody");
}

#[tokio::test]
async fn bodies_are_streams_both_ways() {
    let place = Place::new().await;
    let (id, _) = place.sandbox(json!({})).await;
    let mut connections = guest(&place).listen(8000);
    let mut visitor = begun(&place, &id, "POST", "transfer-encoding: chunked\r\n").await;
    visitor.write_all(b"3\r\none\r\n").await.expect("sent");
    let mut program = in_time("a connection", connections.recv()).await.expect("a connection");
    until(&mut program, "one").await;
    program
        .write_all(b"HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n3\r\nuno\r\n")
        .await
        .expect("sent");
    program.flush().await.expect("sent");
    until(&mut visitor, "uno").await;
    visitor.write_all(b"3\r\ntwo\r\n0\r\n\r\n").await.expect("sent");
    until(&mut program, "two").await;
    program.write_all(b"3\r\ndos\r\n0\r\n\r\n").await.expect("sent");
    program.flush().await.expect("sent");
    until(&mut visitor, "dos").await;
}

#[tokio::test]
async fn an_upgraded_connection_carries_bytes_both_ways_until_the_sandbox_is_paused() {
    let place = Place::new().await;
    let (id, _) = place.sandbox(json!({})).await;
    let mut connections = guest(&place).listen(8000);
    let asked = "connection: Upgrade\r\nupgrade: websocket\r\nsec-websocket-key: abc\r\n";
    let mut visitor = begun(&place, &id, "GET", asked).await;
    let mut program = in_time("a connection", connections.recv()).await.expect("a connection");
    let got = until(&mut program, "\r\n\r\n").await.to_lowercase();
    assert!(got.contains("upgrade: websocket") && got.contains("connection: upgrade"), "{got}");
    assert!(got.contains("sec-websocket-key: abc"), "{got}");
    let switched =
        b"HTTP/1.1 101 Switching Protocols\r\nconnection: upgrade\r\nupgrade: websocket\r\n\r\nfirst";
    program.write_all(switched).await.expect("sent");
    program.flush().await.expect("sent");
    let head = until(&mut visitor, "first").await;
    assert!(head.starts_with("HTTP/1.1 101 "), "{head}");
    assert!(head.to_lowercase().contains("upgrade: websocket"), "{head}");
    visitor.write_all(b"from outside").await.expect("sent");
    until(&mut program, "from outside").await;
    program.write_all(b"from inside").await.expect("sent");
    program.flush().await.expect("sent");
    until(&mut visitor, "from inside").await;

    // It keeps nobody from pausing the sandbox, and does not hang then.
    let paused = place.post(&format!("/sandboxes/{id}/pause"), &json!({})).await;
    assert_eq!(paused.status, StatusCode::NO_CONTENT, "{paused:?}");
    let mut rest = Vec::new();
    let _ = in_time("its end", visitor.read_to_end(&mut rest)).await;
    assert!(rest.is_empty(), "{rest:?}");
}

#[tokio::test]
async fn a_visitor_that_leaves_is_told_to_the_program() {
    let place = Place::new().await;
    let (id, _) = place.sandbox(json!({})).await;
    let mut connections = guest(&place).listen(8000);
    let visitor = begun(&place, &id, "GET", "").await;
    let mut program = in_time("a connection", connections.recv()).await.expect("a connection");
    until(&mut program, "\r\n\r\n").await;
    program.write_all(b"HTTP/1.1 200 OK\r\n\r\nsome").await.expect("sent");
    program.flush().await.expect("sent");
    drop(visitor);
    let end = in_time("its end", program.read(&mut [0; 8])).await;
    assert!(matches!(&end, Err(error) if error.kind() == std::io::ErrorKind::ConnectionReset), "{end:?}");
}

#[tokio::test]
async fn what_leads_nowhere_is_told_apart() {
    let place = Place::new().await;
    let (id, _) = place.sandbox(json!({})).await;
    let closed = visit(&place, &id, &[]).await;
    assert_eq!(closed.refused(502), "The sandbox is running but port is not open");
    assert_eq!((&closed.body["port"], &closed.body["sandboxId"]), (&json!(8000), &json!(id)));

    let mut connections = guest(&place).listen(8000);
    let (silent, ()) = tokio::join!(visit(&place, &id, &[]), async {
        let mut program = in_time("a connection", connections.recv()).await.expect("a connection");
        program.write_all(b"SSH-2.0-something\r\n").await.expect("sent");
    });
    assert_eq!(silent.refused(502), "The program at the port did not answer with HTTP");
    let (unasked, ()) = tokio::join!(visit(&place, &id, &[]), async {
        let mut program = in_time("a connection", connections.recv()).await.expect("a connection");
        until(&mut program, "\r\n\r\n").await;
        let switched = b"HTTP/1.1 101 Switching Protocols\r\nconnection: upgrade\r\nupgrade: x\r\n\r\n";
        program.write_all(switched).await.expect("sent");
        program.flush().await.expect("sent");
        // The host hangs up on it.
        let _ = in_time("its end", program.read(&mut [0; 8])).await;
    });
    unasked.refused(502);

    let nowhere = visit(&place, "sb-000000000000000000000000", &[]).await;
    assert_eq!(nowhere.refused(502), "The sandbox was not found");
    visit(&place, "nonsense", &[]).await.refused(502);
    place.post(&format!("/sandboxes/{id}/pause"), &json!({})).await;
    assert_eq!(visit(&place, &id, &[]).await.refused(502), "The sandbox was not found");
}

#[tokio::test]
async fn a_sandbox_that_is_not_public_takes_its_own_token_alone() {
    let place = Place::new().await;
    let (other, _) = place.sandbox(json!({})).await;
    let foreign = place.token("foreign", "globex", &[Scope::Create, Scope::Exec, Scope::Files]).await;
    let made = place.post_as(&foreign, "/sandboxes", &json!({"templateID": "base", "timeout": 300})).await;
    let (id, own) = place.sandbox(json!({"network": {"allowPublicTraffic": false}})).await;
    serve(&guest(&place), 8000);
    let token = own["trafficAccessToken"].as_str().expect("a token").to_owned();
    let wrong = |token: &str| [("e2b-traffic-access-token".to_owned(), token.to_owned())];
    let other = place.post(&format!("/sandboxes/{other}/connect"), &json!({"timeout": 300})).await;
    let envd = own["envdAccessToken"].as_str().expect("a token");
    let foreign_token = made.body["trafficAccessToken"].as_str().expect("a token");
    let others_token = other.body["trafficAccessToken"].as_str().expect("a token");
    for shown in [envd, foreign_token, others_token, "", "nonsense", &place.key] {
        let [(name, value)] = &wrong(shown);
        let refused = visit(&place, &id, &[(name, value)]).await;
        assert!(refused.refused(403).contains("invalid"), "{shown}: {refused:?}");
    }
    // No other credential opens it.
    let keyed = visit(&place, &id, &[("x-api-key", &place.key), ("x-access-token", envd)]).await;
    assert!(keyed.refused(403).contains("missing"), "{keyed:?}");
    let shown = [("e2b-traffic-access-token", token.as_str())];
    assert_eq!(visit(&place, &id, &shown).await.status, StatusCode::IM_A_TEAPOT);

    let key = place.key.clone();
    place.remove_token("good", &key).await;
    visit(&place, &id, &shown).await.refused(403);
}

#[tokio::test]
async fn an_operator_who_wants_no_public_ports_has_none() {
    let front = FrontOptions { private_ports: true, ..FrontOptions::default() };
    let place = Place::with(Wishes { front, ..Wishes::default() }).await;
    let wanted = json!({"templateID": "base", "network": {"allowPublicTraffic": true}});
    let refused = place.post("/sandboxes", &wanted).await;
    assert!(refused.refused(400).contains("public ports"), "{refused:?}");
    let (id, made) = place.sandbox(json!({})).await;
    serve(&guest(&place), 8000);
    assert!(visit(&place, &id, &[]).await.refused(403).contains("missing"));
    let token = made["trafficAccessToken"].as_str().expect("a token");
    let shown = [("e2b-traffic-access-token", token)];
    assert_eq!(visit(&place, &id, &shown).await.status, StatusCode::IM_A_TEAPOT);
}

#[tokio::test]
async fn a_program_is_told_the_name_that_its_maker_wants() {
    let place = Place::new().await;
    let (id, _) = place.sandbox(json!({"network": {"maskRequestHost": "inside.test:${PORT}"}})).await;
    serve(&guest(&place), 8000);
    let told = visit(&place, &id, &[]).await;
    assert_eq!(told.body["headers"]["host"], "inside.test:8000", "{told:?}");
    let wrong = json!({"templateID": "base", "network": {"maskRequestHost": "a\r\nb: c"}});
    place.post("/sandboxes", &wrong).await.refused(400);
}

#[tokio::test]
async fn a_sandbox_that_waits_for_its_use_is_resumed_by_it() {
    let place = Place::new().await;
    let lifecycle = json!({"autoPause": true, "autoResume": {"enabled": true}});
    let (id, made) = place.sandbox(lifecycle).await;
    serve(&guest(&place), 8000);
    let state = async || place.get(&format!("/sandboxes/{id}")).await.body["state"].clone();
    let pause = async || {
        place.post(&format!("/sandboxes/{id}/timeout"), &json!({"timeout": 0})).await;
        place.until_sandbox(&id, |sandbox| sandbox.state == SandboxState::Paused).await;
        assert_eq!(state().await, "paused");
    };
    pause().await;
    assert_eq!(visit(&place, &id, &[]).await.status, StatusCode::IM_A_TEAPOT);
    assert_eq!(state().await, "running");

    pause().await;
    let token = made["envdAccessToken"].as_str().expect("a token");
    let headers =
        [("e2b-sandbox-id", id.as_str()), ("x-access-token", token), ("content-type", "application/json")];
    // Who is not let in wakes nobody.
    let stranger = place.ask("POST", "/process.Process/List", &headers[..1], "{}").await;
    assert_eq!((stranger.status, state().await), (StatusCode::UNAUTHORIZED, json!("paused")));
    let listed = place.ask("POST", "/process.Process/List", &headers, "{}").await;
    assert_eq!((listed.status, state().await), (StatusCode::OK, json!("running")), "{listed:?}");

    pause().await;
    let missing = place.ask("GET", "/files?path=none", &headers[..2], "").await;
    assert_eq!((missing.status, state().await), (StatusCode::NOT_FOUND, json!("running")), "{missing:?}");
    pause().await;
    let written = place.ask("POST", "/files?path=some", &headers[..2], "content").await;
    assert_eq!(state().await, "running", "{written:?}");
}

#[tokio::test]
async fn an_open_connection_keeps_a_sandbox_from_being_idle() {
    let place = Place::new().await;
    let caller = Caller {
        tenant: "acme".into(),
        token: Some("good".into()),
        scopes: Scopes { admin: false, ..Scopes::ALL },
        ..Caller::local()
    };
    let idle_timeout = Some(Duration::from_millis(700));
    let spec = CreateSpec { idle_timeout, public_ports: true, ..CreateSpec::default() };
    let id = place.service.create(&caller, spec, "").await.expect("a sandbox").id.to_string();
    let mut connections = guest(&place).listen(8000);
    let mut visitor = begun(&place, &id, "GET", "").await;
    let mut program = in_time("a connection", connections.recv()).await.expect("a connection");
    until(&mut program, "\r\n\r\n").await;
    tokio::time::sleep(Duration::from_millis(1500)).await;
    assert!(place.service.is_running(&id), "somebody waits for an answer");
    program.write_all(b"HTTP/1.1 200 OK\r\ncontent-length: 4\r\n\r\nwell").await.expect("sent");
    program.flush().await.expect("sent");
    until(&mut visitor, "well").await;
    place.until_sandbox(&id, |sandbox| sandbox.end.is_some()).await;
}

#[tokio::test]
async fn no_second_request_or_answer_rides_in_a_first_one() {
    let place = Place::new().await;
    let (id, _) = place.sandbox(json!({})).await;
    let mut connections = guest(&place).listen(8000);
    let hidden = "GET /hidden HTTP/1.1\r\nhost: a\r\n\r\n";
    for (what, lines) in [
        ("two lengths", "content-length: 4\r\ncontent-length: 5\r\n"),
        ("two lengths in one", "content-length: 4, 5\r\n"),
        ("an encoding nobody knows", "transfer-encoding: chunked, gzip\r\n"),
        ("an encoding with a space", "transfer-encoding : chunked\r\n"),
    ] {
        let mut visitor = begun(&place, &id, "POST", lines).await;
        visitor.write_all(format!("0\r\n\r\n{hidden}").as_bytes()).await.expect("sent");
        let mut answer = Vec::new();
        let _ = in_time(what, visitor.read_to_end(&mut answer)).await;
        let answer = String::from_utf8_lossy(&answer);
        assert!(answer.starts_with("HTTP/1.1 400"), "{what}: {answer}");
        assert_eq!(answer.matches("HTTP/1.1").count(), 1, "{what}: {answer}");
    }
    assert!(connections.try_recv().is_err(), "the program was asked nothing");

    // What is one request stays one, and what comes after it goes where its own headers say.
    let length = format!("content-length: {}\r\n", hidden.len());
    let mut visitor = begun(&place, &id, "POST", &length).await;
    visitor
        .write_all(format!("{hidden}GET /v2/sandboxes HTTP/1.1\r\nhost: a\r\n\r\n").as_bytes())
        .await
        .expect("sent");
    let mut program = in_time("a connection", connections.recv()).await.expect("a connection");
    let seen = until(&mut program, hidden).await;
    assert!(seen.ends_with(hidden), "{seen}");
    assert!(seen.to_ascii_lowercase().contains(&length), "{seen}");
    let twice =
        "HTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\nokHTTP/1.1 200 OK\r\ncontent-length: 6\r\n\r\nhidden";
    program.write_all(twice.as_bytes()).await.expect("sent");
    let heard = until(&mut visitor, "HTTP/1.1 401").await;
    assert!(heard.starts_with("HTTP/1.1 200"), "{heard}");
    assert!(!heard.contains("hidden"), "{heard}");
    assert!(connections.try_recv().is_err(), "the program was asked once");

    // A length beside a coding counts for nobody.
    let mut visitor = begun(&place, &id, "POST", "content-length: 4\r\ntransfer-encoding: chunked\r\n").await;
    visitor.write_all(format!("{:x}\r\n{hidden}\r\n0\r\n\r\n", hidden.len()).as_bytes()).await.expect("sent");
    let mut program = in_time("a connection", connections.recv()).await.expect("a connection");
    let seen = until(&mut program, "\r\n0\r\n\r\n").await;
    assert!(seen.contains(hidden) && !seen.to_ascii_lowercase().contains("content-length"), "{seen}");
}
