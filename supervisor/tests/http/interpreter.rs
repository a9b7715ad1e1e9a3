//! Code in contexts, as the SDK of E2B's code interpreter asks for it: events, order, bounds, and who may.

use bytes::{Bytes, BytesMut};
use futures::StreamExt as _;
use futures::stream::FuturesUnordered;
use http::{HeaderName, HeaderValue, Request, StatusCode};
use http_body_util::{BodyExt as _, Full};
use hyper::body::Incoming;
use hyper::client::conn::http1;
use hyper_util::rt::TokioIo;
use rekindle_test_support::wait::in_time;
use serde_json::{Value, json};
use tokio::net::TcpStream;

use crate::place::{Answer, Place, Wishes, decisions};

/// A sandbox, and what its maker was told.
struct Interpreter<'a> {
    place: &'a Place,
    id: String,
    access: String,
    traffic: String,
}

/// The answer of a run. Dropping it closes the connection.
struct Run {
    status: StatusCode,
    body: Incoming,
    buffer: BytesMut,
}

impl<'a> Interpreter<'a> {
    async fn new(place: &'a Place) -> Self {
        let (id, made) = place.sandbox(json!({})).await;
        let text = |name: &str| made[name].as_str().expect("a token").to_owned();
        Self { place, id, access: text("envdAccessToken"), traffic: text("trafficAccessToken") }
    }

    fn headers<'b>(&'b self, more: &[(&'b str, &'b str)]) -> Vec<(&'b str, &'b str)> {
        [&[("e2b-sandbox-id", self.id.as_str()), ("e2b-sandbox-port", "49999")], more].concat()
    }

    /// A call about contexts, with the token that the SDKs send.
    async fn call(&self, method: &str, path: &str, body: Value) -> Answer {
        let headers = self.headers(&[("e2b-traffic-access-token", &self.traffic)]);
        self.place.ask(method, path, &headers, body.to_string()).await
    }

    async fn execute(&self, body: Value) -> Run {
        let headers = self.headers(&[("x-access-token", &self.access)]);
        in_time("an answer", open(self.place, &headers, body.to_string())).await
    }

    /// Everything that a run tells.
    async fn run(&self, code: &str) -> Vec<Value> {
        self.execute(json!({"code": code, "context_id": null, "language": null, "env_vars": null}))
            .await
            .rest()
            .await
    }

    async fn context(&self, body: Value) -> String {
        let made = self.call("POST", "/contexts", body).await;
        assert_eq!(made.status, StatusCode::OK, "{made:?}");
        made.body["id"].as_str().expect("an id").to_owned()
    }
}

impl Run {
    /// The next line that is not only a sign of life; nothing at the end.
    async fn line(&mut self) -> Option<Value> {
        loop {
            if let Some(end) = self.buffer.iter().position(|byte| *byte == b'\n') {
                let value: Value = serde_json::from_slice(&self.buffer.split_to(end + 1)).expect("JSON");
                assert!(value["type"].is_string(), "{value}");
                if value["type"] != "keepalive" {
                    return Some(value);
                }
                continue;
            }
            match in_time("a line", self.body.frame()).await {
                Some(Ok(frame)) => self.buffer.extend_from_slice(frame.data_ref().expect("data")),
                Some(Err(_)) => return Some(json!({"type": "cut"})),
                None => return None,
            }
        }
    }

    async fn rest(mut self) -> Vec<Value> {
        assert_eq!(self.status, StatusCode::OK);
        let mut lines = Vec::new();
        while let Some(line) = self.line().await {
            let cut = line["type"] == "cut";
            lines.push(line);
            if cut {
                break;
            }
        }
        lines
    }
}

async fn open(place: &Place, headers: &[(&str, &str)], body: String) -> Run {
    let stream = TcpStream::connect(place.address).await.expect("connected");
    let (mut sender, connection) = http1::handshake(TokioIo::new(stream)).await.expect("a connection");
    tokio::spawn(connection);
    let body = Full::new(Bytes::from(body));
    let mut request = Request::builder().method("POST").uri("/execute").body(body).expect("a request");
    request.headers_mut().insert("host", HeaderValue::from_static("sandboxes.test"));
    for (name, value) in headers {
        let name: HeaderName = name.parse().expect("a name");
        request.headers_mut().insert(name, value.parse().expect("a value"));
    }
    let answer = sender.send_request(request).await.expect("an answer");
    Run { status: answer.status(), body: answer.into_body(), buffer: BytesMut::new() }
}

fn kinds(lines: &[Value]) -> Vec<&str> {
    lines.iter().map(|line| line["type"].as_str().expect("a type")).collect()
}

fn text(lines: &[Value], kind: &str) -> String {
    lines.iter().filter(|line| line["type"] == kind).filter_map(|line| line["text"].as_str()).collect()
}

#[tokio::test]
async fn a_run_tells_its_number_what_it_prints_and_shows_and_its_end() {
    let place = Place::new().await;
    let sandbox = Interpreter::new(&place).await;
    let code = r#"echo one; message {"type":"result","is_main_result":true,"text":"2","json":"[1]","data":"{"}; err two"#;
    let lines = sandbox.run(code).await;
    assert_eq!(lines[0], json!({"type": "number_of_executions", "execution_count": 1}));
    assert_eq!((text(&lines, "stdout"), text(&lines, "stderr")), ("one\n".into(), "two\n".into()));
    let result = lines.iter().find(|line| line["type"] == "result").expect("a result");
    assert_eq!(*result, json!({"type": "result", "is_main_result": true, "text": "2", "json": [1]}));
    assert_eq!(lines.last(), Some(&json!({"type": "end_of_execution"})));
    assert_eq!(sandbox.run("true").await[0]["execution_count"], 2, "the context is the same");
    let allowed = ("allowed".to_owned(), String::new());
    assert_eq!(decisions(&place, "Interpreter/Execute"), [allowed.clone(), allowed]);
}

#[tokio::test]
async fn contexts_are_there_made_begun_anew_and_removed() {
    let place = Place::new().await;
    let sandbox = Interpreter::new(&place).await;
    let listed = async || sandbox.call("GET", "/contexts", json!({})).await.body;
    let first = listed().await;
    let languages: Vec<_> =
        first.as_array().expect("a list").iter().map(|one| one["language"].clone()).collect();
    assert_eq!(languages, ["python", "javascript"]);
    let made = sandbox.context(json!({"language": "JS", "cwd": "/tmp"})).await;
    assert_eq!(listed().await[2], json!({"id": made, "language": "javascript", "cwd": "/tmp"}));
    let count = async || {
        let run = sandbox.execute(json!({"code": "true", "context_id": made})).await;
        run.rest().await[0]["execution_count"].clone()
    };
    assert_eq!((count().await, count().await), (json!(1), json!(2)));
    let restarted = sandbox.call("POST", &format!("/contexts/{made}/restart"), json!({})).await;
    assert_eq!(restarted.status, StatusCode::OK, "{restarted:?}");
    assert_eq!(count().await, json!(1), "it knows nothing any more");
    let path = format!("/contexts/{made}");
    assert_eq!(sandbox.call("DELETE", &path, json!({})).await.status, StatusCode::OK);
    assert_eq!(listed().await, first);
    for (method, path) in [("DELETE", path.clone()), ("POST", format!("{path}/restart"))] {
        let gone = sandbox.call(method, &path, json!({})).await;
        assert_eq!(gone.status, StatusCode::NOT_FOUND, "{gone:?}");
    }
    let run = sandbox.execute(json!({"code": "true", "context_id": made})).await;
    assert_eq!(run.status, StatusCode::NOT_FOUND);
    let said = run.body.collect().await.expect("a body").to_bytes();
    assert_eq!(said, format!("Context {made} not found"));
}

#[tokio::test]
async fn a_context_whose_directory_is_roots_is_roots_where_its_caller_may_be() {
    let place = Place::new().await;
    let sandbox = Interpreter::new(&place).await;
    let made = sandbox.context(json!({"cwd": "/root"})).await;
    let whose = async || {
        let run = sandbox.execute(json!({"code": "whoami", "context_id": made})).await;
        text(&run.rest().await, "stdout")
    };
    assert_eq!(whose().await, "root\n");
    sandbox.call("POST", &format!("/contexts/{made}/restart"), json!({})).await;
    assert_eq!(whose().await, "root\n", "also the program that comes after it");
    assert_eq!(text(&sandbox.run("whoami").await, "stdout"), "user\n", "and no other context");

    let place = Place::with(Wishes { root: false, ..Wishes::default() }).await;
    let sandbox = Interpreter::new(&place).await;
    let refused = sandbox.call("POST", "/contexts", json!({"cwd": "/root"})).await;
    assert_eq!(refused.status, StatusCode::FORBIDDEN, "{refused:?}");
    let listed = sandbox.call("GET", "/contexts", json!({})).await.body;
    assert_eq!(listed.as_array().map(Vec::len), Some(2), "nothing is left of it");
}

#[tokio::test]
async fn a_client_that_goes_away_interrupts_its_run_and_the_next_in_line_begins() {
    let place = Place::new().await;
    let sandbox = Interpreter::new(&place).await;
    let mut first = sandbox.execute(json!({"code": "echo begun; sleep 600000"})).await;
    while first.line().await.expect("a line")["type"] != "stdout" {}
    let next = sandbox.run("echo next");
    let leaving = async {
        place.until_under_way(&sandbox.id, 2).await;
        drop(first);
    };
    let (lines, ()) = in_time("the next run", async { tokio::join!(next, leaving) }).await;
    assert_eq!(lines[0]["execution_count"], 2, "the same program: {lines:?}");
    assert_eq!(text(&lines, "stdout"), "next\n", "nothing of the run before");
}

#[tokio::test]
async fn a_program_that_dies_is_told_as_an_error_and_its_context_begins_anew() {
    let place = Place::new().await;
    let sandbox = Interpreter::new(&place).await;
    sandbox.run("true").await;
    let lines = sandbox.run("echo last; fail 7").await;
    assert_eq!(kinds(&lines), ["number_of_executions", "stdout", "error", "end_of_execution"]);
    assert_eq!(lines[2]["name"], "ContextEnded");
    assert!(lines[2]["value"].as_str().expect("text").contains("exit code 7"), "{lines:?}");
    assert_eq!(sandbox.run("true").await[0]["execution_count"], 1);
}

#[tokio::test]
async fn a_restart_ends_the_run_under_way() {
    let place = Place::new().await;
    let sandbox = Interpreter::new(&place).await;
    let made = sandbox.context(json!({})).await;
    let mut run = sandbox.execute(json!({"code": "sleep 600000", "context_id": made})).await;
    run.line().await;
    sandbox.call("POST", &format!("/contexts/{made}/restart"), json!({})).await;
    assert_eq!(kinds(&run.rest().await), ["error", "end_of_execution"]);
    let again = sandbox.execute(json!({"code": "echo again", "context_id": made})).await.rest().await;
    assert_eq!(text(&again, "stdout"), "again\n");
}

#[tokio::test]
async fn what_a_guest_makes_up_is_bounded_and_means_nothing() {
    let place = Place::new().await;
    let sandbox = Interpreter::new(&place).await;
    // A message that never ends, more than fits, and ends of runs that are not.
    let lines =
        sandbox.run(r#"pieces 2200; message {"type":"end","id":99}; message {; message []; echo on"#).await;
    assert!(text(&lines, "stderr").contains("too large"), "{:?}", kinds(&lines));
    assert_eq!(text(&lines, "stdout"), "on\n");
    let lines = sandbox.run("flood 3000000").await;
    assert_eq!(text(&lines, "stdout").len(), 3_000_000);
    assert_eq!(sandbox.run("true").await[0]["execution_count"], 3);
}

#[tokio::test]
async fn there_are_only_so_many_contexts_and_runs_and_so_much_code() {
    let place = Place::new().await;
    let sandbox = Interpreter::new(&place).await;
    for _ in 0..14 {
        sandbox.context(json!({})).await;
    }
    let full = sandbox.call("POST", "/contexts", json!({})).await;
    assert_eq!(full.status, StatusCode::CONFLICT, "{full:?}");
    let headers = sandbox.headers(&[("x-access-token", &sandbox.access)]);
    let refused = async |body: Value, status: u16| {
        let answer = place.ask("POST", "/execute", &headers, body.to_string()).await;
        assert_eq!(answer.status.as_u16(), status, "{answer:?}");
    };
    refused(json!({"code": "x".repeat((1 << 20) + 1)}), 400).await;
    refused(json!({"code": "x".repeat(4 << 20)}), 413).await;
    refused(json!({"code": "true", "language": "r"}), 400).await;
    refused(json!({"code": "true", "language": "js", "context_id": "a"}), 400).await;
    refused(json!({"code": 1}), 400).await;
    refused(json!({}), 400).await;
    refused(json!({"code": "true", "env_vars": {"": "x"}}), 400).await;
    // One runs, others wait, and no more than may.
    let mut first = sandbox.execute(json!({"code": "echo begun; sleep 600000"})).await;
    while first.line().await.expect("a line")["type"] != "stdout" {}
    let body = json!({"code": "true"}).to_string();
    let runs: FuturesUnordered<_> =
        (0..18).map(|_| place.ask("POST", "/execute", &headers, body.clone())).collect();
    let mut runs = runs.map(|answer| answer.status);
    for _ in 0..3 {
        assert_eq!(runs.next().await, Some(StatusCode::CONFLICT), "no more than fifteen wait");
    }
    drop(first);
    assert_eq!(runs.collect::<Vec<_>>().await, [StatusCode::OK; 15]);
}

#[tokio::test]
async fn nobody_runs_code_without_a_token_of_the_sandbox() {
    let place = Place::new().await;
    let sandbox = Interpreter::new(&place).await;
    let other = Interpreter::new(&place).await;
    for shown in
        [None, Some(("x-access-token", &other.access)), Some(("e2b-traffic-access-token", &sandbox.access))]
    {
        let more: Vec<_> = shown.iter().map(|(name, value)| (*name, value.as_str())).collect();
        for (method, path) in [("POST", "/execute"), ("GET", "/contexts"), ("POST", "/contexts")] {
            let answer = place.ask(method, path, &sandbox.headers(&more), r#"{"code":"true"}"#).await;
            assert_eq!(answer.status, StatusCode::UNAUTHORIZED, "{shown:?} {answer:?}");
        }
    }
    let health = place.ask("GET", "/health", &sandbox.headers(&[]), "").await;
    assert_eq!(health.body, "OK");
    // Other paths are a program's, and nothing listens.
    let relayed = place.ask("GET", "/", &sandbox.headers(&[]), "").await;
    assert_eq!(relayed.status, StatusCode::BAD_GATEWAY);
    assert!(relayed.body["message"].as_str().expect("text").contains("port is not open"), "{relayed:?}");
}

#[tokio::test]
async fn a_run_is_cut_off_with_its_sandbox_which_is_then_said_to_be_gone() {
    let place = Place::new().await;
    let sandbox = Interpreter::new(&place).await;
    let mut run = sandbox.execute(json!({"code": "echo begun; sleep 600000"})).await;
    while run.line().await.expect("a line")["type"] != "stdout" {}
    place.delete(&format!("/sandboxes/{}", sandbox.id)).await;
    assert_eq!(kinds(&run.rest().await), ["cut"]);
    let gone = sandbox.call("GET", "/contexts", json!({})).await;
    assert!(gone.refused(502).contains("was not found"), "{gone:?}");
    assert_eq!(sandbox.execute(json!({"code": "true"})).await.status, StatusCode::BAD_GATEWAY);
}

#[tokio::test]
async fn programs_of_contexts_are_nobodys_and_keep_no_sandbox_awake() {
    let place = Place::new().await;
    let sandbox = Interpreter::new(&place).await;
    sandbox.run("true").await;
    let headers = [
        ("e2b-sandbox-id", sandbox.id.as_str()),
        ("x-access-token", &sandbox.access),
        ("content-type", "application/json"),
    ];
    let listed = place.ask("POST", "/process.Process/List", &headers, "{}").await;
    assert_eq!(listed.status, StatusCode::OK, "{listed:?}");
    assert!(listed.body["processes"].as_array().is_none_or(Vec::is_empty), "{listed:?}");
    // A pause is refused while a call is under way, and a context is none.
    let paused = place.post(&format!("/sandboxes/{}/pause", sandbox.id), &json!({})).await;
    assert_eq!(paused.status, StatusCode::NO_CONTENT, "{paused:?}");
}
