//! Streamable HTTP: whose rights a call has, and who is not let in.

use std::net::SocketAddr;
use std::process::Stdio;

use bytes::Bytes;
use http::{HeaderName, HeaderValue, Method, Request, StatusCode};
use http_body_util::{BodyExt as _, Full};
use hyper::client::conn::http1;
use hyper_util::rt::TokioIo;
use rekindle_test_support::wait::{in_time, until};
use serde_json::{Value, json};
use tokio::io::{AsyncBufReadExt as _, BufReader};
use tokio::net::TcpStream;
use tokio::process::Child;

use crate::place::{Place, VERSION, beginning, id, question, text};

/// A server of the protocol, and where it is.
struct Served {
    address: SocketAddr,
    child: Child,
}

async fn serve(place: &Place, words: &[&str]) -> Served {
    let mut all = vec!["mcp", "--listen", "127.0.0.1:0"];
    all.extend(words);
    let mut child =
        place.rekindle(&all).stdin(Stdio::null()).stderr(Stdio::piped()).spawn().expect("started");
    let mut lines = BufReader::new(child.stderr.take().expect("a pipe")).lines();
    let line = in_time("it listens", lines.next_line()).await.expect("read").expect("a line");
    let address =
        line.split("http://").nth(1).and_then(|rest| rest.strip_suffix("/mcp")).expect("an address");
    Served { address: address.parse().expect("an address"), child }
}

impl Served {
    /// Sends one request, with these headers in place of the usual ones.
    async fn ask(
        &self,
        method: Method,
        headers: &[(&str, &str)],
        body: impl Into<Bytes>,
    ) -> (StatusCode, Bytes) {
        let stream = TcpStream::connect(self.address).await.expect("connected");
        let (mut sender, connection) = http1::handshake(TokioIo::new(stream)).await.expect("HTTP");
        tokio::spawn(connection);
        let mut request =
            Request::builder().method(method).uri("/mcp").body(Full::new(body.into())).expect("a request");
        let own = self.address.to_string();
        let usual = [
            ("host", own.as_str()),
            ("content-type", "application/json"),
            ("accept", "application/json, text/event-stream"),
            ("mcp-protocol-version", VERSION),
        ];
        for (name, value) in usual.iter().chain(headers) {
            let name: HeaderName = name.parse().expect("a name");
            request.headers_mut().insert(name, HeaderValue::from_str(value).expect("a value"));
        }
        let answer = in_time("an answer", sender.send_request(request)).await.expect("answered");
        let status = answer.status();
        (status, answer.into_body().collect().await.expect("a body").to_bytes())
    }

    /// Asks a question with a token.
    async fn question(&self, token: &str, method: &str, params: Value) -> Value {
        let bearer = format!("Bearer {token}");
        let question = question(1, method, &params).to_string();
        let (status, body) = self.ask(Method::POST, &[("authorization", &bearer)], question).await;
        assert_eq!(status, StatusCode::OK, "{}", String::from_utf8_lossy(&body));
        serde_json::from_slice(&body).expect("JSON")
    }

    async fn call(&self, token: &str, tool: &str, arguments: Value) -> Value {
        let answer = self.question(token, "tools/call", json!({"name": tool, "arguments": arguments})).await;
        assert!(answer.get("error").is_none(), "{answer}");
        answer["result"].clone()
    }
}

#[tokio::test]
async fn a_call_has_the_rights_of_its_own_token() {
    let place = Place::new().await;
    let (acme, other) = (&place.acme, &place.other);
    let served = serve(&place, &[]).await;
    let began = served.question(acme, "initialize", beginning()).await;
    assert_eq!(began["result"]["serverInfo"]["name"], "rekindle", "{began}");
    let tools = served.question(acme, "tools/list", json!({})).await;
    assert_eq!(tools["result"]["tools"].as_array().map(Vec::len), Some(5), "{tools}");
    let create = &tools["result"]["tools"][0];
    assert_eq!(
        create["inputSchema"]["properties"]["network"]["enum"],
        json!(["none"]),
        "the token allows no policy"
    );
    assert!(!create["description"].as_str().expect("a text").contains("session"), "{create}");
    let sandbox = id(&text(&served.call(acme, "sandbox_create", json!({})).await));
    let run = json!({"sandbox": sandbox, "code": "echo hello"});
    assert!(text(&served.call(acme, "sandbox_run", run.clone()).await).ends_with("stdout:\nhello"));
    let refused = served.call(other, "sandbox_run", run).await;
    assert!(text(&refused).starts_with("refused: UNKNOWN_SANDBOX: "), "{refused}");
    let unknown = served.call("rk_made_up", "sandbox_end", json!({"sandbox": sandbox})).await;
    assert!(text(&unknown).starts_with("refused: UNAUTHENTICATED: "), "{unknown}");
    assert_eq!(place.alive(), 1);
    served.call(acme, "sandbox_end", json!({"sandbox": sandbox})).await;
    assert_eq!(place.alive(), 0);
}

#[tokio::test]
async fn nobody_comes_in_without_a_token_or_by_a_name_that_is_not_its_own() {
    let place = Place::new().await;
    let bearer = format!("Bearer {}", place.acme);
    let served =
        serve(&place, &["--host", "mcp.example.com", "--origin", "https://app.example.com:443"]).await;
    let list = question(1, "tools/list", &json!({})).to_string();
    let status = async |headers: &[(&str, &str)]| served.ask(Method::POST, headers, list.clone()).await.0;
    assert_eq!(status(&[]).await, StatusCode::UNAUTHORIZED);
    assert_eq!(status(&[("authorization", "Basic YTpi")]).await, StatusCode::UNAUTHORIZED);
    let known = ("authorization", bearer.as_str());
    assert_eq!(status(&[known]).await, StatusCode::OK);
    assert_eq!(status(&[known, ("host", "localhost")]).await, StatusCode::OK);
    assert_eq!(status(&[known, ("host", "mcp.example.com")]).await, StatusCode::OK);
    assert_eq!(status(&[known, ("host", "evil.example.com")]).await, StatusCode::FORBIDDEN);
    assert_eq!(status(&[known, ("origin", "https://app.example.com")]).await, StatusCode::OK);
    let own = format!("http://{}", served.address);
    assert_eq!(status(&[known, ("origin", &own)]).await, StatusCode::OK);
    for origin in ["https://evil.example.com", "http://localhost:1", "null"] {
        assert_eq!(status(&[known, ("origin", origin)]).await, StatusCode::FORBIDDEN, "{origin}");
    }
    let ask = async |method: Method, body: Bytes| served.ask(method, &[known], body).await.0;
    assert_eq!(ask(Method::POST, vec![b'x'; 9 << 20].into()).await, StatusCode::PAYLOAD_TOO_LARGE);
    assert!(ask(Method::POST, Bytes::from_static(b"not json")).await.is_client_error());
    assert_eq!(ask(Method::GET, Bytes::new()).await, StatusCode::METHOD_NOT_ALLOWED);
    // It still serves.
    assert_eq!(status(&[known]).await, StatusCode::OK);
}

#[tokio::test]
async fn a_caller_that_hangs_up_kills_its_program() {
    let place = Place::new().await;
    let token = &place.acme;
    let served = serve(&place, &[]).await;
    let sandbox = id(&text(&served.call(token, "sandbox_create", json!({})).await));
    let run = json!({"sandbox": sandbox, "code": "sleep 600000"});
    let calling = served.call(token, "sandbox_run", run);
    let guest = place.host.guests.all().pop().expect("a guest");
    tokio::select! {
        _ = calling => panic!("it cannot have ended"),
        () = until("it runs", || !guest.executed().is_empty()) => {}
    }
    place.cancelled(&sandbox).await;
}

#[tokio::test]
async fn who_serves_without_tokens_must_say_so_and_other_machines_are_not_served_by_chance() {
    let place = Place::new().await;
    let mut served = serve(&place, &["--anonymous"]).await;
    let list = question(1, "tools/list", &json!({})).to_string();
    assert_eq!(served.ask(Method::POST, &[], list.clone()).await.0, StatusCode::OK);
    let evil = [("host", "evil.example.com")];
    assert_eq!(served.ask(Method::POST, &evil, list).await.0, StatusCode::FORBIDDEN);
    served.child.start_kill().expect("killed");
    let ended =
        in_time("the end", place.rekindle(&["mcp", "--listen", "0.0.0.0:0"]).output()).await.expect("run");
    let said = String::from_utf8_lossy(&ended.stderr).into_owned();
    assert!(!ended.status.success() && said.contains("--host"), "{said}");
}

#[tokio::test]
async fn a_call_is_part_of_the_trace_that_its_meta_or_its_headers_name() {
    let place = Place::new().await;
    let (one, other) = ("4bf92f3577b34da6a3ce929d0e0e4736", "5bf92f3577b34da6a3ce929d0e0e4736");
    let parent = |trace: &str| format!("00-{trace}-00f067aa0ba902b7-01");
    let served = serve(&place, &["--trace", other, "--step", "usual"]).await;
    let sandbox = id(&text(&served.call(&place.acme, "sandbox_create", json!({})).await));
    let run = async |code: &str, headers: &[(&str, &str)], meta: Value| {
        let arguments = json!({"sandbox": sandbox, "code": code});
        let call = json!({"name": "sandbox_run", "arguments": arguments, "_meta": meta});
        let bearer = format!("Bearer {}", place.acme);
        let headers: Vec<_> = [("authorization", bearer.as_str())].iter().chain(headers).copied().collect();
        let (status, body) =
            served.ask(Method::POST, &headers, question(1, "tools/call", &call).to_string()).await;
        assert_eq!(status, StatusCode::OK, "{}", String::from_utf8_lossy(&body));
        text(&serde_json::from_slice::<Value>(&body).expect("JSON")["result"])
    };
    let header = parent(one);
    run("echo a", &[("traceparent", &header), ("rekindle-step", "headers")], json!({})).await;
    run(
        "echo b",
        &[("traceparent", "00-00"), ("rekindle-step", "headers")],
        json!({"traceparent": parent(one), "rekindle/step": "meta"}),
    )
    .await;
    run("echo c", &[], json!({})).await;
    let refused = run("echo d", &[], json!({"rekindle/step": " "})).await;
    assert!(refused.starts_with("refused: INVALID_REQUEST: "), "{refused}");
    served.call(&place.acme, "sandbox_end", json!({"sandbox": sandbox})).await;

    let mut client = place.client().await;
    let mut told = async |trace: &str| {
        let request =
            rekindle_api::v1::SandboxTimelineRequest { sandbox: String::new(), trace: trace.into() };
        let told = client.sandboxes.timeline(request).await.expect("told").into_inner();
        told.entries
            .iter()
            .map(|entry| format!("{} {} {}", entry.step, entry.call, entry.subject))
            .collect::<Vec<_>>()
    };
    assert_eq!(told(one).await, ["headers execute echo a", "meta execute echo b"]);
    assert_eq!(told(other).await, ["usual create tiny", "usual execute echo c", "usual destroy "]);
}
