//! The gateway from a guest's first byte to a service's last: what is let through, what is not, and that the credential
//! is nowhere but at the service. The guests are fake; gate, gateway, TLS and the service are real.

use std::convert::Infallible;
use std::net::SocketAddr;
use std::os::unix::fs::PermissionsExt as _;
use std::path::Path;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use bytes::Bytes;
use http_body_util::{BodyExt as _, Full, StreamBody, combinators::UnsyncBoxBody};
use hyper::body::{Frame, Incoming};
use hyper::service::service_fn;
use hyper::{Request, Response};
use hyper_util::rt::TokioIo;
use rcgen::{BasicConstraints, CertificateParams, IsCa, Issuer, KeyPair};
use rekindle::config::tokens::{Quota, Scope};
use rekindle::network::{Egress, Gateway};
use rekindle_api::Code;
use rekindle_api::client::Client;
use rekindle_api::v1::{self, ErrorReason, connection::State};
use rekindle_fake_guest::Guest;
use rekindle_protocol::wire::egress_verdict::Verdict;
use rekindle_test_support::wait::{in_time, until, until_answer};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpListener;
use tokio::sync::mpsc;
use tokio_rustls::TlsAcceptor;
use tokio_rustls::rustls::ServerConfig;

use crate::place::{Place, Wishes, output, refused, shell, token_with};

/// The operator's secret, which nobody but the service may see.
const CANARY: &str = "sk-canary-0123456789";

/// What the service was sent.
#[derive(Debug, Clone)]
struct Received {
    target: String,
    headers: Vec<(String, String)>,
    body: Vec<u8>,
}

impl Received {
    fn header(&self, name: &str) -> Option<&str> {
        self.headers.iter().find(|(known, _)| known == name).map(|(_, value)| value.as_str())
    }
}

type Seen = Arc<Mutex<Vec<Received>>>;
/// What the service says next on `/v1/stream`.
type Events = Arc<Mutex<Option<mpsc::Receiver<Result<Frame<Bytes>, Infallible>>>>>;

struct Bed {
    place: Place,
    seen: Seen,
    events: mpsc::Sender<Result<Frame<Bytes>, Infallible>>,
    dir: tempfile::TempDir,
}

async fn respond(
    seen: Seen,
    events: Events,
    request: Request<Incoming>,
) -> Result<Response<UnsyncBoxBody<Bytes, Infallible>>, Infallible> {
    let (head, body) = request.into_parts();
    let body = body.collect().await.map(|body| body.to_bytes().to_vec()).unwrap_or_default();
    let headers: Vec<(String, String)> = head
        .headers
        .iter()
        .map(|(name, value)| (name.to_string(), String::from_utf8_lossy(value.as_bytes()).into_owned()))
        .collect();
    let received = Received { target: head.uri.to_string(), headers, body };
    let said = received.header("authorization").unwrap_or_default().to_owned();
    let sent = received.body.len();
    seen.lock().expect("seen").push(received);
    let response = Response::builder();
    let whole = |text: String| Full::new(Bytes::from(text)).boxed_unsync();
    let response = match head.uri.path() {
        "/v1/stream" => {
            let events = events.lock().expect("events").take().expect("streamed once");
            let body = StreamBody::new(futures::stream::unfold(events, |mut events| async {
                events.recv().await.map(|event| (event, events))
            }));
            response.header("content-type", "text/event-stream").body(body.boxed_unsync())
        }
        "/v1/moved" => {
            response.status(302).header("location", "https://elsewhere.example/x").body(whole(String::new()))
        }
        _ => response
            .header("x-echo", format!("you are {said}"))
            .header("set-cookie", "session=secret")
            .header("x-request-id", "7")
            .body(whole(format!("{sent} bytes from {said}"))),
    };
    Ok(response.expect("a response"))
}

/// A service on loopback behind TLS, and the certificate of who signed its own.
async fn service(ca: &Path, seen: &Seen, events: &Events) -> SocketAddr {
    let mut params = CertificateParams::new(Vec::new()).expect("parameters");
    params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
    let key = KeyPair::generate().expect("a key");
    std::fs::write(ca, params.self_signed(&key).expect("signed").pem()).expect("written");
    let issuer = Issuer::new(params, key);
    let key = KeyPair::generate().expect("a key");
    let own = CertificateParams::new(vec!["api.example.com".to_owned()]).expect("parameters");
    let own = own.signed_by(&key, &issuer).expect("signed");
    let config = ServerConfig::builder()
        .with_no_client_auth()
        .with_single_cert(vec![own.der().clone()], key.serialize_der().try_into().expect("a key"))
        .expect("a configuration");
    let acceptor = TlsAcceptor::from(Arc::new(config));
    let listener = TcpListener::bind("127.0.0.1:0").await.expect("a server");
    let address = listener.local_addr().expect("an address");
    let (seen, events) = (Arc::clone(seen), Arc::clone(events));
    tokio::spawn(async move {
        while let Ok((client, _)) = listener.accept().await {
            let (acceptor, seen, events) = (acceptor.clone(), Arc::clone(&seen), Arc::clone(&events));
            tokio::spawn(async move {
                let Ok(tls) = acceptor.accept(client).await else { return };
                let serve =
                    service_fn(move |request| respond(Arc::clone(&seen), Arc::clone(&events), request));
                let builder = hyper::server::conn::http1::Builder::new();
                let _ = builder.serve_connection(TokioIo::new(tls), serve).await;
            });
        }
    });
    address
}

async fn bed() -> Bed {
    bed_with("").await
}

async fn bed_with(more: &str) -> Bed {
    bed_of(more, None).await
}

async fn bed_of(more: &str, tokens: Option<&Path>) -> Bed {
    let dir = tempfile::tempdir().expect("a directory");
    let (ca, key) = (dir.path().join("ca.pem"), dir.path().join("key"));
    std::fs::write(&key, format!("{CANARY}\n")).expect("written");
    std::fs::set_permissions(&key, std::fs::Permissions::from_mode(0o600)).expect("closed");
    let (events, received) = mpsc::channel(4);
    let (seen, streaming) = (Seen::default(), Arc::new(Mutex::new(Some(received))));
    let address = service(&ca, &seen, &streaming).await;
    let (ca, key) = (ca.display(), key.display());
    // A name that is looked up leads nowhere here: the operator has mapped it.
    let text = format!(
        r#"
[ai]
upstream = "https://api.example.com"
ca = "{ca}"
credential = {{ file = "{key}" }}
operations = [
    {{ name = "chat", method = "POST", path = "/v1/chat/completions", max_body_bytes = 1000, cost = 3 }},
    {{ name = "stream", method = "GET", path = "/v1/stream" }},
    {{ name = "moved", method = "GET", path = "/v1/moved" }},
    {{ name = "item", method = "GET", path = "/v1/items/{{id}}" }},
]
{more}
[keyed]
upstream = "https://api.example.com"
ca = "{ca}"
credential = {{ header = "x-api-key", value = "{{}}", file = "{key}" }}
operations = [{{ name = "item", method = "GET", path = "/v1/items/{{id}}" }}]
[strange]
upstream = "https://127.0.0.1:{port}"
ca = "{ca}"
operations = [{{ name = "item", method = "GET", path = "/v1/items/{{id}}" }}]
"#,
        port = address.port(),
    );
    let gateway = Gateway::open(&toml::from_str(&text).expect("services"), None).expect("a gateway");
    assert!(!format!("{gateway:?}").contains(CANARY), "it is shown");
    let hosts = [("api.example.com".to_owned(), address)].into();
    // A policy that lets everything through changes nothing about the gateway's names.
    let policies = toml::from_str("[open]\nmode = \"full\"\n").expect("policies");
    let network = Egress::new(&policies, &hosts).expect("a network");
    let tokens = tokens.map(Path::to_owned);
    let place = Place::with(Wishes { network, gateway, tokens, ..Wishes::default() }).await;
    Bed { place, seen, events, dir }
}

fn granted(operations: &[&str]) -> v1::CreateSandboxRequest {
    let gateway = operations.iter().map(|operation| (*operation).to_owned()).collect();
    v1::CreateSandboxRequest { gateway, ..Default::default() }
}

struct Machine {
    id: String,
    guest: Guest,
    token: String,
}

impl Bed {
    async fn machine(&self, client: &mut Client, request: v1::CreateSandboxRequest) -> Machine {
        let (id, guest) = self.place.sandbox_with(client, request).await;
        let token = output(client, &id, "env REKINDLE_GATEWAY_TOKEN").await.trim().to_owned();
        Machine { id, guest, token }
    }

    fn seen(&self) -> Vec<Received> {
        self.seen.lock().expect("seen").clone()
    }
}

impl Machine {
    /// Sends this, and hears all that comes back.
    async fn raw(&self, service: &str, request: &str) -> String {
        let name = format!("{service}.gateway.internal");
        let (mut stream, verdict) = self.guest.dial(&name, 80, 0, request.as_bytes()).await;
        let mut heard = Vec::new();
        match verdict {
            Verdict::Accepted(_) => {
                in_time("an answer", stream.read_to_end(&mut heard)).await.expect("heard");
            }
            // The guest writes the record down and sends its client the reply.
            Verdict::Denied(told) => {
                heard = told.reply.to_vec();
                let record: serde_json::Value = serde_json::from_str(&told.record).expect("JSON");
                assert_eq!((&record["reason"], &record["host"]), (&told.reason.into(), &name.into()));
            }
            Verdict::Failed(_) => panic!("{verdict:?}"),
        }
        let heard = String::from_utf8_lossy(&heard).into_owned();
        assert!(!heard.contains(CANARY), "the guest sees the credential: {heard}");
        heard
    }

    fn request(&self, line: &str, more: &str) -> String {
        let token = &self.token;
        format!("{line} HTTP/1.1\r\nhost: ai.gateway.internal\r\nauthorization: Bearer {token}\r\n{more}\r\n")
    }

    async fn ask(&self, line: &str) -> String {
        self.raw("ai", &self.request(line, "")).await
    }
}

fn status(answer: &str) -> u16 {
    answer
        .split(' ')
        .nth(1)
        .and_then(|code| code.parse().ok())
        .unwrap_or_else(|| panic!("no answer: {answer:?}"))
}

fn body(answer: &str) -> &str {
    answer.split_once("\r\n\r\n").expect("a body").1
}

/// What is refused by its head is a denial to the guest, which writes it down.
async fn verdict(machine: &Machine, request: &str) -> Verdict {
    machine.guest.dial("ai.gateway.internal", 80, 0, request.as_bytes()).await.1
}

fn denied(answer: &str) -> serde_json::Value {
    let body: serde_json::Value = serde_json::from_str(body(answer)).expect("JSON");
    assert_eq!(body["error"], "gateway_denied");
    body
}

async fn connections(client: &mut Client, sandbox: &str) -> Vec<v1::Connection> {
    let request = v1::ConnectionsRequest { sandbox: sandbox.into(), follow: false };
    let mut told = client.network.connections(request).await.expect("told").into_inner();
    let mut all = Vec::new();
    while let Some(connection) = told.message().await.expect("no failure") {
        all.push(connection);
    }
    all
}

#[tokio::test]
async fn a_granted_operation_reaches_its_service_with_the_operators_credential_and_never_the_guests() {
    let bed = bed().await;
    let mut client = bed.place.client().await;
    let machine = bed.machine(&mut client, granted(&["ai/chat"])).await;
    let sent = machine.request(
        "POST /v1/chat/completions?n=1",
        "content-length: 5\r\ncontent-type: application/json\r\ncookie: a=b\r\nx-http-method-override: DELETE\r\n\
         connection: x-own\r\nx-own: 1\r\n",
    );
    let answer = machine.raw("ai", &format!("{sent}hello")).await;
    assert_eq!(status(&answer), 200, "{answer}");
    // The service echoes what it was sent: it is masked in the body, and its header is left out.
    assert_eq!(body(&answer), format!("5 bytes from Bearer {}", "*".repeat(CANARY.len())));
    let head = answer.split_once("\r\n\r\n").expect("a head").0.to_lowercase();
    assert!(head.contains("x-request-id: 7") && head.contains("connection: close"), "{head}");
    assert!(!head.contains("x-echo") && !head.contains("set-cookie"), "{head}");
    let [received] = &bed.seen()[..] else { panic!("{:?}", bed.seen()) };
    assert_eq!(received.target, "/v1/chat/completions?n=1");
    assert_eq!(received.body, b"hello");
    assert_eq!(received.header("authorization"), Some(&*format!("Bearer {CANARY}")));
    assert_eq!(received.header("host"), Some("api.example.com"));
    assert_eq!(received.header("content-type"), Some("application/json"));
    for gone in ["cookie", "x-http-method-override", "x-own", "connection"] {
        assert_eq!(received.header(gone), None, "{gone}");
    }
    assert!(!format!("{received:?}").contains(&machine.token), "the service sees the guest's token");
    // It is a connection like any other, of the execution that made it, and nothing of it tells the secret.
    let mut other = client.clone();
    let running = other.sandboxes.execute(shell(&machine.id, "sleep 1500"));
    let asking = async {
        until("it runs", || machine.guest.running() == 1).await;
        // The second of the sandbox: the first has printed the token.
        let said = machine.request("POST /v1/chat/completions", "content-length: 0\r\n");
        let (mut stream, _) = machine.guest.dial("ai.gateway.internal", 80, 2, said.as_bytes()).await;
        let mut heard = String::new();
        in_time("an answer", stream.read_to_string(&mut heard)).await.expect("heard");
        assert_eq!(status(&heard), 200, "{heard}");
    };
    let (done, ()) = tokio::join!(running, asking);
    let network = done.expect("executed").into_inner().network.expect("it asked the gateway");
    assert_eq!((network.connections, network.denied), (1, 0));
    assert!(network.bytes_up > 0 && network.bytes_down > 0);
    let told = connections(&mut client, &machine.id).await;
    let last = told.last().expect("a connection");
    assert_eq!((last.host.as_str(), last.port), ("ai.gateway.internal", 80));
    let rule = match &last.state {
        Some(State::Open(open)) => &open.rule,
        Some(State::Closed(closed)) => &closed.rule,
        other => panic!("{other:?}"),
    };
    assert_eq!(rule, "gateway ai/chat");
    assert!(last.bytes_up > 0 && last.bytes_down > 0);
    let got =
        client.sandboxes.get(v1::GetSandboxRequest { sandbox: machine.id.clone() }).await.expect("found");
    let got = got.into_inner();
    assert_eq!((got.network.as_str(), &got.gateway[..]), ("none", &["ai/chat".to_owned()][..]));
    let usage = got.usage.expect("usage");
    assert_eq!((usage.gateway_requests, usage.gateway_cost), (2, 6));
    let everything = format!("{told:?} {got:?} {:?}", bed.place.audit());
    assert!(!everything.contains(CANARY) && !everything.contains(&machine.token));
    assert!(bed.place.audit().iter().any(|line| line["rule"] == "gateway ai/chat"));
    let metrics = bed.place.service.metrics().encode();
    assert!(metrics.contains("gateway_requests_total{service=\"ai\",outcome=\"passed\"} 2"), "{metrics}");
    assert!(metrics.contains("gateway_cost_total{service=\"ai\"} 6"), "{metrics}");
    assert!(!metrics.contains(CANARY) && !metrics.contains(&machine.token), "{metrics}");
}

#[tokio::test]
async fn the_token_is_taken_wherever_a_client_sends_its_key_and_nowhere_else() {
    let bed = bed().await;
    let mut client = bed.place.client().await;
    let machine = bed.machine(&mut client, granted(&["keyed/*", "ai/item"])).await;
    let token = &machine.token;
    assert!(token.starts_with("rkg_") && token.len() == 47, "{token}");
    let cases = [
        (format!("authorization: Bearer {token}"), 200),
        (format!("Authorization: bearer {token}"), 200),
        (format!("x-api-key: {token}"), 200),
        (format!("api-key: {token}"), 200),
        (format!("authorization: Bearer wrong\r\nx-api-key: {token}"), 200),
        (format!("x-other: {token}"), 401),
        (format!("authorization: Bearer {token}x"), 401),
        (format!("authorization: Bearer {}", &token[..46]), 401),
        ("authorization: Bearer ".to_owned(), 401),
        ("x-none: 1".to_owned(), 401),
    ];
    for (header, expected) in cases {
        let request = format!("GET /v1/items/7 HTTP/1.1\r\nhost: keyed.gateway.internal\r\n{header}\r\n\r\n");
        let before = bed.seen().len();
        let answer = machine.raw("keyed", &request).await;
        assert_eq!(status(&answer), expected, "{header}: {answer}");
        let seen = bed.seen();
        assert_eq!(seen.len() - before, usize::from(expected == 200), "{header}");
        if expected == 200 {
            let received = seen.last().expect("received");
            assert_eq!(received.header("x-api-key"), Some(CANARY));
            assert_eq!(received.header("authorization"), None);
        } else {
            assert_eq!(denied(&answer)["reason"], "gateway_token");
        }
    }
}

#[tokio::test]
async fn what_was_not_granted_is_refused_in_words_and_reaches_nobody() {
    let bed = bed().await;
    let mut client = bed.place.client().await;
    let machine = bed.machine(&mut client, granted(&["ai/item", "ai/moved"])).await;
    for line in [
        // Declared, and not granted.
        "POST /v1/chat/completions",
        // Not declared.
        "GET /v1/models",
        "DELETE /v1/items/7",
        "GET /v1/items/7/",
        "GET /v1/items/..%2fchat",
        "GET /v1/items/../stream",
        "GET /v1/items/%2e%2e",
        "GET //v1/items/7",
    ] {
        let answer = machine.ask(line).await;
        assert_eq!(status(&answer), 403, "{line}: {answer}");
        let told = denied(&answer);
        assert_eq!((&told["reason"], &told["service"]), (&"not_granted".into(), &"ai".into()), "{line}");
        assert_eq!(told["operations"], serde_json::json!(["ai/item", "ai/moved"]), "{line}");
    }
    for (request, reason) in [
        (machine.request("GET http://ai.gateway.internal/v1/items/7", ""), "host_mismatch"),
        (machine.request("GET http://evil.example/v1/items/7", ""), "host_mismatch"),
        (machine.request("GET /v1/items/7", "upgrade: websocket\r\nconnection: upgrade\r\n"), "tunnel"),
        (machine.request("CONNECT evil.example:443", ""), "tunnel"),
        (machine.request("GET /v1/items/7", "").replace("ai.gateway", "keyed.gateway"), "host_mismatch"),
        (machine.request("GET /v1/items/7", "host: evil.example\r\n"), "host_mismatch"),
    ] {
        let answer = machine.raw("ai", &request).await;
        assert_eq!((status(&answer), denied(&answer)["reason"].as_str()), (403, Some(reason)), "{request}");
    }
    assert_eq!(bed.seen().len(), 0, "{:?}", bed.seen());
    // What follows a redirect is the program's own affair.
    let answer = machine.ask("GET /v1/moved").await;
    assert_eq!(status(&answer), 302);
    assert!(answer.to_lowercase().contains("location: https://elsewhere.example/x"), "{answer}");
    assert_eq!(bed.seen().len(), 1);
    // Each is in the journal, and a service without a grant is not even answered by the gateway.
    for (name, port) in
        [("keyed.gateway.internal", 80), ("gateway.internal", 80), ("a.b.gateway.internal", 80)]
    {
        let (_, verdict) = machine.guest.dial(name, port, 0, b"GET / HTTP/1.1\r\n").await;
        let Verdict::Denied(told) = verdict else { panic!("{name}: {verdict:?}") };
        assert!(told.message.contains("ai/item, ai/moved"), "{told:?}");
    }
    let (_, verdict) = machine.guest.dial("ai.gateway.internal", 443, 0, b"GET / HTTP/1.1\r\n").await;
    assert!(matches!(verdict, Verdict::Denied(told) if told.reason == "port"));
    let told = connections(&mut client, &machine.id).await;
    let refusals =
        told.iter().filter(|connection| matches!(connection.state, Some(State::Denied(_)))).count();
    assert_eq!((told.len(), refusals), (19, 18));
}

#[tokio::test]
async fn no_policy_brings_a_name_of_the_gateways_to_anybody_without_a_grant() {
    let bed = bed().await;
    let mut client = bed.place.client().await;
    let open = v1::CreateSandboxRequest { network: "open".into(), ..Default::default() };
    let (id, guest) = bed.place.sandbox_with(&mut client, open).await;
    let (_, verdict) = guest.dial("ai.gateway.internal", 80, 0, b"GET / HTTP/1.1\r\n").await;
    assert!(matches!(verdict, Verdict::Denied(told) if told.reason == "not_granted"));
    let none = client.sandboxes.execute(shell(&id, "env REKINDLE_GATEWAY_TOKEN")).await.expect("executed");
    assert_eq!(none.into_inner().stdout.expect("an output").text, "", "there is nothing to have a token for");
}

#[tokio::test]
async fn a_token_is_worth_nothing_in_another_sandbox_nor_after_its_own() {
    let bed = bed().await;
    let mut client = bed.place.client().await;
    let one = bed.machine(&mut client, granted(&["ai/item"])).await;
    let other = bed.machine(&mut client, granted(&["ai/item"])).await;
    assert_ne!(one.token, other.token);
    assert_eq!(status(&one.ask("GET /v1/items/7").await), 200);
    let stolen = other.raw("ai", &one.request("GET /v1/items/7", "")).await;
    assert_eq!((status(&stolen), denied(&stolen)["reason"].as_str()), (401, Some("gateway_token")));
    client.sandboxes.destroy(v1::DestroySandboxRequest { sandbox: one.id.clone() }).await.expect("destroyed");
    let dead = other.raw("ai", &one.request("GET /v1/items/7", "")).await;
    assert_eq!(status(&dead), 401);
    assert_eq!(status(&other.ask("GET /v1/items/7").await), 200);
    assert_eq!(bed.seen().len(), 2);
}

#[tokio::test]
async fn a_body_is_as_long_as_its_operation_says_however_it_is_sent() {
    let bed = bed().await;
    let mut client = bed.place.client().await;
    let machine = bed.machine(&mut client, granted(&["ai/chat"])).await;
    let line = "POST /v1/chat/completions";
    let fits = machine.request(line, "content-length: 1000\r\n") + &"x".repeat(1000);
    assert_eq!(status(&machine.raw("ai", &fits).await), 200);
    let over = machine.request(line, "content-length: 1001\r\n") + &"x".repeat(1001);
    let answer = machine.raw("ai", &over).await;
    assert_eq!((status(&answer), denied(&answer)["reason"].as_str()), (413, Some("body_too_large")));
    assert_eq!(bed.seen().len(), 1);
    let chunk = format!("1f4\r\n{}\r\n", "x".repeat(500));
    let chunked = machine.request(line, "transfer-encoding: chunked\r\n");
    let answer = machine.raw("ai", &format!("{chunked}{chunk}{chunk}0\r\n\r\n")).await;
    assert_eq!(status(&answer), 200, "{answer}");
    let answer = machine.raw("ai", &format!("{chunked}{chunk}{chunk}1\r\nx\r\n0\r\n\r\n")).await;
    assert_eq!(status(&answer), 413, "{answer}");
    assert!(bed.seen().iter().all(|received| received.body.len() <= 1000));
    let last = connections(&mut client, &machine.id).await.pop().expect("a connection");
    assert!(
        matches!(last.state, Some(State::Closed(v1::ConnectionClosed { denial: Some(_), .. }))),
        "{last:?}"
    );
}

#[tokio::test]
async fn a_stream_of_events_passes_event_by_event() {
    let bed = bed().await;
    let mut client = bed.place.client().await;
    let machine = bed.machine(&mut client, granted(&["ai/stream"])).await;
    let request = machine.request("GET /v1/stream", "accept: text/event-stream\r\n");
    let (mut stream, verdict) = machine.guest.dial("ai.gateway.internal", 80, 0, request.as_bytes()).await;
    assert!(matches!(verdict, Verdict::Accepted(_)));
    let mut heard = Vec::new();
    for number in 0..3 {
        let event = format!("data: {{\"number\": {number}}}\n\n");
        bed.events.send(Ok(Frame::data(Bytes::from(event.clone())))).await.expect("said");
        // The next one is not sent before this one has come.
        let mut piece = [0; 1024];
        while !String::from_utf8_lossy(&heard).contains(&event) {
            let read = in_time("an event", stream.read(&mut piece)).await.expect("heard");
            assert_ne!(read, 0, "it ended: {}", String::from_utf8_lossy(&heard));
            heard.extend_from_slice(&piece[..read]);
        }
    }
    // A secret that comes in two pieces is masked as well.
    for part in CANARY.as_bytes().chunks(9) {
        bed.events.send(Ok(Frame::data(Bytes::copy_from_slice(part)))).await.expect("said");
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
    drop(bed.events);
    in_time("the end", stream.read_to_end(&mut heard)).await.expect("heard");
    let heard = String::from_utf8_lossy(&heard);
    assert!(heard.to_lowercase().contains("content-type: text/event-stream"), "{heard}");
    assert!(heard.contains(&"*".repeat(CANARY.len())), "{heard}");
    assert!(!heard.contains(CANARY) && !heard.contains(&CANARY[..12]), "{heard}");
}

#[tokio::test]
async fn a_budget_and_a_pace_are_kept_and_told() {
    let bed = bed_with("requests_per_minute = 4").await;
    let mut client = bed.place.client().await;
    let asked = v1::CreateSandboxRequest { gateway_budget: Some(7), ..granted(&["ai/chat", "ai/item"]) };
    let machine = bed.machine(&mut client, asked).await;
    let chat = machine.request("POST /v1/chat/completions", "content-length: 0\r\n");
    assert_eq!(status(&machine.raw("ai", &chat).await), 200);
    assert_eq!(status(&machine.raw("ai", &chat).await), 200);
    let spent = machine.raw("ai", &chat).await;
    assert_eq!((status(&spent), denied(&spent)["reason"].as_str()), (402, Some("cost_spent")));
    assert_eq!(status(&machine.ask("GET /v1/items/7").await), 200, "one unit is left");
    let late = machine.ask("GET /v1/items/7").await;
    assert_eq!((status(&late), denied(&late)["reason"].as_str()), (429, Some("rate_limited")));
    let wait = late
        .to_lowercase()
        .split("retry-after: ")
        .nth(1)
        .and_then(|rest| rest.split('\r').next()?.parse().ok());
    assert!(wait.is_some_and(|wait: u64| (1..=16).contains(&wait)), "{late}");
    let got =
        client.sandboxes.get(v1::GetSandboxRequest { sandbox: machine.id.clone() }).await.expect("found");
    let got = got.into_inner();
    let usage = got.usage.expect("usage");
    assert_eq!((usage.gateway_requests, usage.gateway_cost, got.gateway_budget), (3, 7, Some(7)));
    // Another sandbox has its own.
    let other = bed.machine(&mut client, granted(&["ai/item"])).await;
    assert_eq!(status(&other.ask("GET /v1/items/7").await), 200);
}

#[tokio::test]
async fn sandboxes_of_one_tenant_share_its_budget_of_the_day_and_its_pace() {
    let dir = tempfile::tempdir().expect("a directory");
    let file = dir.path().join("tokens.toml");
    let quota = |cost, requests| Quota {
        max_gateway_cost_per_day: Some(cost),
        max_gateway_requests_per_minute: Some(requests),
        ..Quota::default()
    };
    let scopes = [Scope::Create, Scope::Exec];
    let secret = |id: &str, tenant: &str, quota| token_with(&file, id, tenant, &scopes, quota, &["ai"]);
    let (acme, other) = (secret("acme", "acme", quota(7, 100)), secret("other", "other", quota(100, 2)));
    let bed = bed_of("", Some(&file)).await;
    let mut client = bed.place.client_with(Some(&acme)).await;
    let one = bed.machine(&mut client, granted(&["ai/chat", "ai/item"])).await;
    let two = bed.machine(&mut client, granted(&["ai/chat"])).await;
    let chat = |machine: &Machine| machine.request("POST /v1/chat/completions", "content-length: 0\r\n");
    for machine in [&one, &two] {
        assert_eq!(status(&machine.raw("ai", &chat(machine)).await), 200);
    }
    for machine in [&one, &two] {
        let spent = machine.raw("ai", &chat(machine)).await;
        let told = denied(&spent);
        assert_eq!((status(&spent), told["reason"].as_str()), (402, Some("cost_spent")));
        let message = told["message"].as_str().expect("a message");
        assert!(message.contains("ai/chat (the tenant's budget of the day)"), "{message}");
    }
    assert_eq!(status(&one.ask("GET /v1/items/7").await), 200, "one unit is left");
    let request = v1::GetSandboxRequest { sandbox: one.id.clone() };
    let usage = client.sandboxes.get(request).await.expect("found").into_inner().usage.expect("usage");
    assert_eq!(usage.gateway_cost, 4, "what the tenant refused is not the sandbox's");
    assert_eq!(bed.seen().len(), 3);

    // Another tenant has its own, and a pace.
    let mut strangers = bed.place.client_with(Some(&other)).await;
    let three = bed.machine(&mut strangers, granted(&["ai/item"])).await;
    let four = bed.machine(&mut strangers, granted(&["ai/item"])).await;
    assert_eq!(status(&three.ask("GET /v1/items/7").await), 200);
    assert_eq!(status(&four.ask("GET /v1/items/7").await), 200);
    let late = three.ask("GET /v1/items/7").await;
    assert_eq!((status(&late), denied(&late)["reason"].as_str()), (429, Some("rate_limited")));
    assert!(late.to_lowercase().contains("retry-after: ") && late.contains("the tenant's"), "{late}");

    // What is spent is told while they run, and once they have ended.
    let spent = async || {
        let (mut client, request) = (client.clone(), v1::HostUsageRequest::default());
        let tenants = client.host.usage(request).await.expect("sums").into_inner().tenants;
        tenants.iter().map(|tenant| (tenant.gateway_cost, tenant.gateway_cost_today)).collect::<Vec<_>>()
    };
    assert_eq!(spent().await, [(0, 7)]);
    for machine in [&one, &two] {
        let request = v1::DestroySandboxRequest { sandbox: machine.id.clone() };
        client.clone().sandboxes.destroy(request).await.expect("destroyed");
    }
    assert_eq!(spent().await, [(7, 7)]);
}

#[tokio::test]
async fn a_guest_hears_of_a_refusal_as_of_any_denial_and_of_an_answer_at_once() {
    let bed = bed().await;
    let mut client = bed.place.client().await;
    let machine = bed.machine(&mut client, granted(&["ai/item", "ai/stream"])).await;
    for (request, reason) in [
        (machine.request("GET /v1/models", ""), "not_granted"),
        (machine.request("GET /v1/items/7", "").replace(&machine.token, "wrong"), "gateway_token"),
        (machine.request("GET /v1/items/7", "").replace("ai.gateway", "keyed.gateway"), "host_mismatch"),
        ("hello\r\n\r\n".to_owned(), "not_http"),
    ] {
        let told = verdict(&machine, &request).await;
        let Verdict::Denied(told) = told else { panic!("{request}: {told:?}") };
        let record: serde_json::Value = serde_json::from_str(&told.record).expect("JSON");
        assert_eq!((&*told.reason, &record["reason"]), (reason, &reason.into()), "{request}");
        assert_eq!(record["host"], "ai.gateway.internal");
        assert!(told.reply.starts_with(b"HTTP/1.1 4"), "{told:?}");
    }
    // Before the service has said a word: a guest waits for a verdict no longer than for a connection.
    assert!(matches!(verdict(&machine, &machine.request("GET /v1/stream", "")).await, Verdict::Accepted(_)));
}

#[tokio::test]
async fn a_service_that_cannot_be_believed_or_reached_is_no_answer_and_costs_nothing() {
    let bed = bed().await;
    let mut client = bed.place.client().await;
    let machine = bed.machine(&mut client, granted(&["strange/item"])).await;
    // Its certificate is for another name.
    let request = machine.request("GET /v1/items/7", "").replace("ai.gateway", "strange.gateway");
    let answer = machine.raw("strange", &request).await;
    assert_eq!(status(&answer), 502, "{answer}");
    let told: serde_json::Value = serde_json::from_str(body(&answer)).expect("JSON");
    assert_eq!(told["error"], "gateway_unreachable");
    assert!(told["message"].as_str().is_some_and(|message| message.contains("TLS")), "{told}");
    let got =
        client.sandboxes.get(v1::GetSandboxRequest { sandbox: machine.id.clone() }).await.expect("found");
    let usage = got.into_inner().usage.expect("usage");
    assert_eq!((usage.gateway_requests, usage.gateway_cost), (0, 0));
    let last = connections(&mut client, &machine.id).await.pop().expect("a connection");
    assert!(matches!(last.state, Some(State::Failed(_))), "{last:?}");
    assert_eq!(bed.seen().len(), 0);
}

#[tokio::test]
async fn what_is_no_request_is_denied_and_takes_nobody_down() {
    let bed = bed().await;
    let mut client = bed.place.client().await;
    let machine = bed.machine(&mut client, granted(&["ai/item"])).await;
    let long = format!("GET /v1/items/7 HTTP/1.1\r\nx: {}\r\n\r\n", "x".repeat(100_000));
    for nonsense in ["\x16\x03\x01\x02\x00", "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n", "hello\r\n\r\n", &long] {
        let (mut stream, _) = machine.guest.dial("ai.gateway.internal", 80, 0, nonsense.as_bytes()).await;
        let _ = stream.shutdown().await;
        let mut heard = Vec::new();
        let _ = in_time("an end", stream.read_to_end(&mut heard)).await;
        assert!(!String::from_utf8_lossy(&heard).starts_with("HTTP/1.1 200"), "{nonsense:.20}");
    }
    assert_eq!(status(&machine.ask("GET /v1/items/7").await), 200);
    let told = connections(&mut client, &machine.id).await;
    let not_http = |connection: &&v1::Connection| matches!(&connection.state, Some(State::Denied(denial)) if denial.reason == "not_http");
    assert_eq!(told.iter().filter(not_http).count(), 4, "{told:?}");
}

#[tokio::test]
async fn a_caller_grants_what_there_is_and_what_its_token_allows() {
    let dir = tempfile::tempdir().expect("a directory");
    let file = dir.path().join("tokens.toml");
    let secret =
        |id: &str, names: &[&str]| token_with(&file, id, "acme", &[Scope::Create], Quota::default(), names);
    let (plain, ai, all) = (secret("plain", &[]), secret("ai", &["ai"]), secret("all", &["*"]));
    let bed = bed_of("", Some(&file)).await;
    for (secret, asked, expected) in [
        (&plain, "ai/chat", Some(ErrorReason::NetworkForbidden)),
        (&plain, "nothing/x", Some(ErrorReason::NetworkForbidden)),
        (&ai, "ai/chat", None),
        (&ai, "ai/*", None),
        (&ai, "keyed/item", Some(ErrorReason::NetworkForbidden)),
        (&all, "keyed/*", None),
        (&all, "ai/nothing", Some(ErrorReason::InvalidRequest)),
        (&all, "nothing/x", Some(ErrorReason::InvalidRequest)),
        (&all, "*/*", Some(ErrorReason::InvalidRequest)),
        (&all, "ai", Some(ErrorReason::InvalidRequest)),
        (&all, "ai/", Some(ErrorReason::InvalidRequest)),
    ] {
        let mut client = bed.place.client_with(Some(secret)).await;
        let created = client.sandboxes.create(granted(&[asked])).await;
        match expected {
            None => drop(created.expect("created")),
            Some(reason @ ErrorReason::NetworkForbidden) => {
                let detail = refused(created, Code::PermissionDenied, reason);
                assert!(detail.hint.contains("--gateway"), "{detail:?}");
            }
            Some(reason) => drop(refused(created, Code::InvalidArgument, reason)),
        }
    }
    let mut client = bed.place.client_with(Some(&all)).await;
    let alone = v1::CreateSandboxRequest { gateway_budget: Some(1), ..Default::default() };
    refused(client.sandboxes.create(alone).await, Code::InvalidArgument, ErrorReason::InvalidRequest);
    let many = vec!["ai/chat"; 65];
    refused(
        client.sandboxes.create(granted(&many)).await,
        Code::InvalidArgument,
        ErrorReason::InvalidRequest,
    );
}

#[tokio::test]
async fn a_credential_that_is_renewed_counts_from_then_on() {
    let bed = bed().await;
    let mut client = bed.place.client().await;
    let machine = bed.machine(&mut client, granted(&["ai/item"])).await;
    assert_eq!(status(&machine.ask("GET /v1/items/7").await), 200);
    let renewed = "sk-canary-renewed-42";
    std::fs::write(bed.dir.path().join("key"), renewed).expect("written");
    let shown = format!("Bearer {renewed}");
    until_answer("the new credential", async || {
        assert_eq!(status(&machine.ask("GET /v1/items/7").await), 200);
        let last = bed.seen().pop().expect("received");
        (last.header("authorization") == Some(&shown)).then_some(())
    })
    .await;
}
