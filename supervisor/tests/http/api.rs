//! Our own API in JSON: every shape of call, and errors with all that gRPC says about them.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use bytes::Bytes;
use http::{Request, StatusCode};
use http_body_util::{BodyExt as _, Full};
use hyper::client::conn::http1;
use hyper_util::rt::TokioIo;
use rekindle::config::tokens::Scope;
use rekindle::http::FrontOptions;
use rekindle_test_support::wait::{in_time, until};
use serde_json::{Value, json};
use tokio::net::UnixStream;

use crate::data_plane::{Ended, Events, call_stream, framed};
use crate::place::{Answer, Place, Wishes, decisions};
use crate::ports::{guest, serve};

pub async fn call(place: &Place, method: &str, message: &Value) -> Answer {
    call_with(place, method, message.to_string(), &[]).await
}

pub async fn call_with(place: &Place, method: &str, body: String, more: &[(&str, &str)]) -> Answer {
    let bearer = format!("Bearer {}", place.key);
    let headers = [&[("content-type", "application/json"), ("authorization", &bearer)], more].concat();
    place.ask("POST", &format!("/rekindle.v1.{method}"), &headers, body).await
}

async fn done(place: &Place, method: &str, message: &Value) -> Value {
    let answer = call(place, method, message).await;
    assert_eq!(answer.status, StatusCode::OK, "{method} {message}: {answer:?}");
    assert_eq!(answer.header("content-type"), Some("application/json"));
    answer.body
}

pub async fn stream(place: &Place, method: &str, messages: &[Value]) -> Events {
    let body = messages.iter().flat_map(framed).collect();
    let bearer = format!("Bearer {}", place.key);
    call_stream(place, &format!("/rekindle.v1.{method}"), body, &[("authorization", &bearer)]).await
}

pub async fn sandbox(place: &Place) -> String {
    let made = done(place, "Sandboxes/Create", &json!({})).await;
    made["id"].as_str().expect("an id").to_owned()
}

fn bytes(data: impl AsRef<[u8]>) -> Value {
    STANDARD.encode(data).into()
}

/// What an error says about its reason.
fn reason(error: &Value) -> (&str, &str) {
    let details = error["details"].as_array().expect("details");
    let detail = |kind: &str| details.iter().find(|detail| detail["type"] == kind).expect("a detail");
    let own = detail("rekindle.v1.ErrorDetail");
    assert!(!own["value"].as_str().expect("bytes").is_empty());
    let info = &detail("google.rpc.ErrorInfo")["debug"];
    assert_eq!(info["domain"], "rekindle");
    let named = own["debug"]["reason"].as_str().expect("a reason").strip_prefix("ERROR_REASON_");
    assert_eq!(named, info["reason"].as_str());
    (error["code"].as_str().expect("a code"), named.expect("a reason"))
}

#[tokio::test]
async fn a_sandbox_lives_and_ends_in_json() {
    let place = Place::new().await;
    let asked = json!({"metadata": {"who": "me"}, "ttl": "90.5s", "limits": {"pids": 32}});
    let made = done(&place, "Sandboxes/Create", &asked).await;
    assert_eq!((&made["state"], &made["metadata"]), (&json!("SANDBOX_STATE_RUNNING"), &json!({"who": "me"})));
    assert_eq!((&made["limits"]["pids"], &made["tenant"]), (&json!(32), &json!("acme")));
    let id = &made["id"];
    // As proto3 has it in JSON, a field may also be called what it is called in the description.
    let request =
        json!({"sandbox": id, "program": {"shell": "echo out; err on; fail 3"}, "output_limit": 100});
    let ran = done(&place, "Sandboxes/Execute", &request).await;
    assert_eq!((&ran["outcome"], &ran["stdout"]["text"]), (&json!({"exitCode": 3}), &json!("out\n")));
    assert_eq!((&ran["stderr"]["text"], &ran["stdout"]["totalBytes"]), (&json!("on\n"), &json!("4")));
    let fine = json!({"sandbox": id, "program": {"command": {"argv": ["true"]}}});
    let ran = done(&place, "Sandboxes/Execute", &fine).await;
    assert_eq!(ran["outcome"], json!({"exitCode": 0}), "what is chosen is said also when it is zero");
    let listed = done(&place, "Sandboxes/List", &json!({"metadata": {"who": "me"}})).await;
    assert_eq!(listed["sandboxes"].as_array().map(Vec::len), Some(1));
    // A message without any field may be nothing at all.
    let listed = call_with(&place, "Host/ListTemplates", String::new(), &[]).await;
    assert_eq!(listed.body["templates"][0]["name"], crate::place::TEMPLATE);
    let gone = done(&place, "Sandboxes/Destroy", &json!({"sandbox": id})).await;
    assert_eq!(gone["end"]["reason"], "SANDBOX_END_REASON_DESTROYED");
    let allowed = ("allowed".to_owned(), String::new());
    assert_eq!(
        decisions(&place, "Sandboxes/Execute"),
        [allowed.clone(), allowed],
        "written down as for gRPC"
    );
}

#[tokio::test]
async fn an_error_says_all_that_grpc_says() {
    let place = Place::with(Wishes { machines: 1, ..Wishes::default() }).await;
    let answer = call(&place, "Sandboxes/Get", &json!({"sandbox": "sb-none"})).await;
    assert_eq!(answer.status, StatusCode::NOT_FOUND);
    assert_eq!(reason(&answer.body), ("not_found", "UNKNOWN_SANDBOX"));
    assert_eq!(answer.body["message"], "there is no such sandbox");
    let id = sandbox(&place).await;
    let full = call(&place, "Sandboxes/Create", &json!({"queueTimeout": "0s"})).await;
    assert_eq!(full.status, StatusCode::TOO_MANY_REQUESTS);
    assert_eq!(reason(&full.body), ("resource_exhausted", "HOST_FULL"));
    let details = full.body["details"].as_array().expect("details");
    let retry = details.iter().find(|detail| detail["type"] == "google.rpc.RetryInfo").expect("when");
    assert!(retry["debug"]["retryDelay"].as_str().is_some_and(|delay| delay.ends_with('s')), "{retry}");
    let late = json!({"sandbox": id, "program": {"shell": "sleep 60000"}});
    let late =
        call_with(&place, "Sandboxes/Execute", late.to_string(), &[("connect-timeout-ms", "100")]).await;
    assert_eq!(late.status, StatusCode::GATEWAY_TIMEOUT);
    assert_eq!(reason(&late.body), ("deadline_exceeded", "DEADLINE"));
    // In a stream the error is its end.
    let mut events =
        stream(&place, "Files/Download", &[json!({"sandbox": id, "path": bytes("nothing")})]).await;
    assert_eq!(events.status, StatusCode::OK);
    let Err(Ended::Whole(end)) = events.next().await else { panic!("no end") };
    assert_eq!(reason(&end["error"]), ("not_found", "NOT_FOUND"));
}

#[tokio::test]
async fn a_program_is_followed_as_it_runs_and_dies_with_its_reader() {
    let place = Place::new().await;
    let id = sandbox(&place).await;
    let start = |line: &str| json!({"start": {"request": {"sandbox": id, "program": {"shell": line}}}});
    let mut events = stream(&place, "Sandboxes/ExecuteStream", &[start("echo one; err two; fail 4")]).await;
    assert!(events.next().await.is_ok_and(|event| event["started"]["pid"].is_u64()));
    let (mut out, mut err, mut finished) = (Vec::new(), Vec::new(), Value::Null);
    let ended = loop {
        match events.next().await {
            Ok(event) => {
                let read =
                    |name: &str| STANDARD.decode(event[name].as_str().unwrap_or_default()).expect("bytes");
                out.extend(read("stdout"));
                err.extend(read("stderr"));
                finished = event["finished"].clone();
            }
            Err(ended) => break ended,
        }
    };
    assert_eq!((&out[..], &err[..], ended), (&b"one\n"[..], &b"two\n"[..], Ended::Whole(json!({}))));
    assert_eq!(finished["outcome"], json!({"exitCode": 4}));
    // Input goes in the same request, before its end.
    let live = json!({"start": {"request": {"sandbox": id, "program": {"shell": "cat"}}, "liveStdin": true}});
    let input = [live, json!({"stdin": bytes("hello")}), json!({"stdinEnd": {}})];
    let mut events = stream(&place, "Sandboxes/ExecuteStream", &input).await;
    let mut echoed = String::new();
    while let Ok(event) = events.next().await {
        echoed += event["finished"]["stdout"]["text"].as_str().unwrap_or_default();
    }
    assert_eq!(echoed, "hello");
    let mut events = stream(&place, "Sandboxes/ExecuteStream", &[start("sleep 60000")]).await;
    assert!(events.next().await.is_ok());
    drop(events);
    until("the program is killed", || decisions(&place, "Sandboxes/ExecuteStream").len() == 3).await;
    let killed = ("allowed".to_owned(), "cancelled".to_owned());
    assert_eq!(decisions(&place, "Sandboxes/ExecuteStream")[2], killed);
}

#[tokio::test]
async fn code_is_run_in_contexts_in_json() {
    let place = Place::new().await;
    let id = sandbox(&place).await;
    let asked = json!({"sandbox": id, "language": "CODE_LANGUAGE_JAVASCRIPT", "cwd": "/tmp"});
    let made = done(&place, "Interpreter/CreateContext", &asked).await;
    let listed = done(&place, "Interpreter/ListContexts", &json!({"sandbox": id})).await;
    assert_eq!(listed["contexts"][2], made);
    let code = r#"echo one; message {"type":"result","is_main_result":true,"text":"2","png":"AAEC"}"#;
    let asked = json!({"sandbox": id, "context": made["id"], "code": code});
    let mut events = stream(&place, "Interpreter/Run", &[asked]).await;
    let mut told = Vec::new();
    let ended = loop {
        match events.next().await {
            Ok(event) => told.push(event),
            Err(ended) => break ended,
        }
    };
    assert_eq!(ended, Ended::Whole(json!({})));
    assert_eq!(told[0], json!({"started": {"context": made}}));
    let result = json!({"result": {"isMain": true, "text": "2", "png": "AAEC"}});
    assert!(told.contains(&json!({"stdout": "one\n"})) && told.contains(&result), "{told:?}");
    assert_eq!(told.last().expect("an end")["end"]["executionCount"], "1");
    let named = json!({"sandbox": id, "context": made["id"]});
    done(&place, "Interpreter/RestartContext", &named).await;
    done(&place, "Interpreter/RemoveContext", &named).await;
    let gone = call(&place, "Interpreter/RemoveContext", &named).await;
    assert_eq!((gone.status, reason(&gone.body).1), (StatusCode::NOT_FOUND, "NOT_FOUND"));
}

#[tokio::test]
async fn a_file_goes_there_and_back() {
    let place = Place::new().await;
    let id = sandbox(&place).await;
    let content: Vec<u8> = (0..400_000_u32).map(|n| (n % 251) as u8).collect();
    let mut parts = vec![json!({"start": {"sandbox": id, "path": bytes("data.bin"), "size": "400000"}})];
    parts.extend(content.chunks(100_000).map(|piece| json!({"chunk": bytes(piece)})));
    parts.push(json!({"end": {}}));
    let mut answer = stream(&place, "Files/Upload", &parts).await;
    let info = answer.next().await.expect("a file");
    assert_eq!(info["size"], "400000");
    assert_eq!(answer.next().await, Err(Ended::Whole(json!({}))));
    let mut answer =
        stream(&place, "Files/Download", &[json!({"sandbox": id, "path": bytes("data.bin")})]).await;
    let (mut back, mut end) = (Vec::new(), Value::Null);
    while let Ok(part) = answer.next().await {
        back.extend(STANDARD.decode(part["chunk"].as_str().unwrap_or_default()).expect("bytes"));
        end = part["end"].clone();
    }
    assert!(back == content, "{} bytes came back", back.len());
    assert_eq!((&end["size"], &end["sha256"]), (&json!("400000"), &info["sha256"]));
    // An upload that does not say that it was all leaves nothing.
    parts.pop();
    parts[0]["start"]["path"] = bytes("half.bin");
    let mut answer = stream(&place, "Files/Upload", &parts).await;
    let Err(Ended::Whole(end)) = answer.next().await else { panic!("half a file is none") };
    assert_eq!(reason(&end["error"]).0, "invalid_argument");
    let stat = call(&place, "Files/Stat", &json!({"sandbox": id, "path": bytes("half.bin")})).await;
    assert_eq!(reason(&stat.body), ("not_found", "NOT_FOUND"));
}

#[tokio::test]
async fn the_description_has_every_method_and_needs_no_token() {
    let place = Place::new().await;
    let answer = place.ask("GET", "/rekindle.v1/descriptor", &[], "").await;
    assert_eq!(answer.status, StatusCode::OK);
    let files = answer.body["file"].as_array().expect("files");
    let own = files.iter().find(|file| file["package"] == "rekindle.v1").expect("the API");
    let services = own["service"].as_array().expect("services");
    let methods: usize =
        services.iter().map(|service| service["method"].as_array().map_or(0, Vec::len)).sum();
    assert_eq!(methods, 37);
    assert!(files.iter().any(|file| file["package"] == "google.rpc"));
    assert_eq!(place.ask("POST", "/rekindle.v1/descriptor", &[], "").await.status, 405);
}

#[tokio::test]
async fn the_socket_of_grpc_speaks_json_as_well() {
    let place = Place::new().await;
    let ask = |token: Option<String>| {
        let socket = place.socket.clone();
        async move {
            let stream = UnixStream::connect(&socket).await.expect("connected");
            let (mut sender, connection) =
                http1::handshake(TokioIo::new(stream)).await.expect("a connection");
            tokio::spawn(connection);
            let mut request = Request::post("/rekindle.v1.Host/ListTemplates")
                .header("host", "localhost")
                .header("content-type", "application/json");
            if let Some(token) = token {
                request = request.header("authorization", format!("Bearer {token}"));
            }
            let request = request.body(Full::new(Bytes::from_static(b"{}"))).expect("a request");
            let answer = sender.send_request(request).await.expect("an answer");
            let status = answer.status();
            let body = answer.into_body().collect().await.expect("a body").to_bytes();
            (status, serde_json::from_slice::<Value>(&body).expect("JSON"))
        }
    };
    let (status, listed) = in_time("an answer", ask(Some(place.key.clone()))).await;
    assert_eq!((status, &listed["templates"][0]["name"]), (StatusCode::OK, &json!(crate::place::TEMPLATE)));
    let (status, refused) = in_time("an answer", ask(None)).await;
    assert_eq!(status, StatusCode::UNAUTHORIZED, "the socket of this place trusts nobody");
    assert_eq!(reason(&refused), ("unauthenticated", "UNAUTHENTICATED"));
}

#[tokio::test]
async fn turns_a_result_and_a_diagnosis_are_there_in_json() {
    let place = Place::new().await;
    let made = done(&place, "Sandboxes/Create", &json!({ "maxTurns": 2, "resultPath": "/tmp/r" })).await;
    assert_eq!((&made["turns"]["max"], &made["turns"]["left"]), (&json!(2), &json!(2)));
    assert_eq!(made["result"], json!({ "path": "/tmp/r" }), "only Get asks the guest");
    let run = |line: &str| json!({ "sandbox": made["id"], "program": { "shell": line } });
    let crashed = done(&place, "Sandboxes/Execute", &run("kill 11")).await;
    assert_eq!((&crashed["diagnosis"]["kind"], &crashed["turnsLeft"]), (&json!("crashed"), &json!(1)));
    assert_eq!(crashed["warning"], "1 turn is left: write the result to /tmp/r now");
    let wrote = done(&place, "Sandboxes/Execute", &run("write /tmp/r text")).await;
    assert_eq!((&wrote["turnsLeft"], &wrote["warning"]), (&json!(0), &Value::Null));
    let spent = call(&place, "Sandboxes/Execute", &run("true")).await;
    assert_eq!(reason(&spent.body), ("resource_exhausted", "TURNS_SPENT"));
    let got = done(&place, "Sandboxes/Get", &json!({ "sandbox": made["id"] })).await;
    assert_eq!(got["result"], json!({ "path": "/tmp/r", "exists": true }));
}

#[tokio::test]
async fn a_trace_and_a_step_come_in_the_same_headers() {
    const TRACE: &str = "4bf92f3577b34da6a3ce929d0e0e4736";
    let place = Place::new().await;
    let id = sandbox(&place).await;
    let parent = format!("00-{TRACE}-00f067aa0ba902b7-01");
    let run = json!({ "sandbox": id, "program": { "shell": "echo hi" } }).to_string();
    let ask = |step: &'static str| {
        let (place, run, parent) = (&place, run.clone(), parent.clone());
        async move {
            let headers = [("traceparent", &*parent), ("rekindle-step", step)];
            call_with(place, "Sandboxes/Execute", run, &headers).await
        }
    };
    assert_eq!(ask("plan").await.status, StatusCode::OK);
    let long = ask("a step whose name is longer than any name of a step that is taken").await;
    assert_eq!(reason(&long.body), ("invalid_argument", "INVALID_REQUEST"));
    let told = done(&place, "Sandboxes/Timeline", &json!({ "trace": TRACE })).await;
    let entry = &told["entries"][0];
    assert_eq!((&entry["trace"], &entry["step"]), (&json!(TRACE), &json!("plan")), "{told}");
    assert_eq!((&entry["sandbox"], told["entries"].as_array().map(Vec::len)), (&json!(id), Some(1)));
    assert_eq!((&told["steps"][0]["step"], &told["steps"][0]["executions"]), (&json!("plan"), &json!("1")));
}

/// What a sandbox says about its ports to who holds this token.
async fn ports(place: &Place, method: &str, id: &Value, key: &str) -> Value {
    let bearer = format!("Bearer {key}");
    let headers = [("content-type", "application/json"), ("authorization", bearer.as_str())];
    let asked = json!({"sandbox": id}).to_string();
    place.ask("POST", &format!("/rekindle.v1.Sandboxes/{method}"), &headers, asked).await.body["ports"].take()
}

#[tokio::test]
async fn its_tenant_is_told_how_to_reach_a_sandboxs_ports() {
    let place = Place::new().await;
    let made = done(&place, "Sandboxes/Create", &json!({})).await;
    let id = &made["id"];
    let name = id.as_str().expect("an id");
    assert_eq!(made["ports"]["url"], format!("http://{}", place.address));
    assert_eq!(made["ports"], ports(&place, "Get", id, &place.key).await);

    serve(&guest(&place), 8000);
    let visit = async |token: &Value| {
        let token = token.as_str().expect("a token");
        let headers =
            [("e2b-sandbox-id", name), ("e2b-sandbox-port", "8000"), ("e2b-traffic-access-token", token)];
        place.ask("GET", "/", &headers, "").await.status
    };
    let token = made["ports"]["token"].clone();
    assert_eq!(visit(&token).await, StatusCode::IM_A_TEAPOT);

    let colleague = place.token("colleague", "acme", &[Scope::Exec]).await;
    let theirs = ports(&place, "Get", id, &colleague).await;
    assert_ne!(theirs["token"], token, "a token of their own");
    assert_eq!(visit(&theirs["token"]).await, StatusCode::IM_A_TEAPOT);
    place.remove_token("colleague", &colleague).await;
    assert_eq!(
        visit(&theirs["token"]).await,
        StatusCode::FORBIDDEN,
        "it goes with the token it was made for"
    );

    let without = place.token("files", "acme", &[Scope::Files]).await;
    assert_eq!(ports(&place, "Get", id, &without).await, Value::Null, "nothing that they may not use");
    let admin = place.token("admin", "others", &[Scope::Admin, Scope::Exec]).await;
    assert_eq!(ports(&place, "Get", id, &admin).await, Value::Null, "to look is not to reach");
    let listed = done(&place, "Sandboxes/List", &json!({})).await;
    assert_eq!(listed["sandboxes"][0]["ports"], Value::Null, "lists hold no tokens");
    done(&place, "Sandboxes/Pause", &json!({"sandbox": id})).await;
    assert_eq!(ports(&place, "Get", id, &place.key).await, made["ports"]);
    done(&place, "Sandboxes/Destroy", &json!({"sandbox": id})).await;
    assert_eq!(ports(&place, "Get", id, &place.key).await, Value::Null, "there are none any more");
}

#[tokio::test]
async fn a_domain_names_ports() {
    let front = FrontOptions { domain: Some("box.localhost".into()), ..FrontOptions::default() };
    let place = Place::with(Wishes { front, ..Wishes::default() }).await;
    let made = done(&place, "Sandboxes/Create", &json!({})).await;
    let (id, port) = (made["id"].as_str().expect("an id"), place.address.port());
    assert_eq!(made["ports"]["url"], format!("http://{{port}}-{id}.box.localhost:{port}"));
}
