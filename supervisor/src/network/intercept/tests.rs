//! Connections that are read, with real TLS on both sides: a client that trusts its sandbox's authority, and a server on
//! loopback that counts what reaches it.

use std::collections::BTreeMap;
use std::io;
use std::net::{IpAddr, SocketAddr};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};

use bytes::Bytes;
use http_body_util::{BodyExt as _, Full};
use hyper::body::Incoming;
use hyper::header::{HeaderMap, HeaderValue};
use hyper::service::service_fn;
use hyper::{Request, Response};
use hyper_util::rt::TokioIo;
use rekindle_protocol::frame;
use rekindle_protocol::wire::{self, egress_request, egress_verdict::Verdict};
use tempfile::TempDir;
use tokio::io::{AsyncRead, AsyncReadExt as _, AsyncWrite, AsyncWriteExt as _, DuplexStream};
use tokio::net::TcpListener;
use tokio::task::JoinHandle;
use tokio_rustls::rustls::pki_types::pem::PemObject as _;
use tokio_rustls::rustls::pki_types::{CertificateDer, ServerName};
use tokio_rustls::rustls::{self, ClientConfig, RootCertStore};
use tokio_rustls::{TlsAcceptor, TlsConnector};

use super::authority::Authority;
use super::interception::{Interception, Trust};
use crate::network::cassette::{Cassettes, Limits};
use crate::network::connection;
use crate::network::denial::DenialReason;
use crate::network::dial::{Dialer, Lookup, Resolve};
use crate::network::gate::Gate;
use crate::network::journal::{ConnectionState, ConnectionView};
use crate::network::name::HostName;
use crate::network::policy::{Policy, PolicySpec};

const HOST: &str = "api.example.com";
const CANARY: &str = "canary-4711";

/// Leads every name to nowhere, and counts.
#[derive(Default)]
struct Nowhere(AtomicUsize);

impl Resolve for Nowhere {
    fn lookup<'a>(&'a self, _: &'a HostName) -> Lookup<'a> {
        self.0.fetch_add(1, Ordering::SeqCst);
        Box::pin(async { Err(io::ErrorKind::NotFound.into()) })
    }

    fn own(&self) -> io::Result<Vec<IpAddr>> {
        Ok(Vec::new())
    }
}

/// A server, what it heard, and where cassettes are.
struct Bed {
    data: TempDir,
    authority: Authority,
    resolver: Arc<Nowhere>,
    address: SocketAddr,
    heard: Arc<Mutex<Vec<String>>>,
    serving: Vec<JoinHandle<()>>,
}

impl Drop for Bed {
    fn drop(&mut self) {
        self.serving.iter().for_each(JoinHandle::abort);
    }
}

fn trusting(pem: &str) -> ClientConfig {
    let mut roots = RootCertStore::empty();
    roots.add(CertificateDer::from_pem_slice(pem.as_bytes()).unwrap()).unwrap();
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let builder = ClientConfig::builder_with_provider(provider).with_safe_default_protocol_versions();
    let mut config = builder.unwrap().with_root_certificates(roots).with_no_client_auth();
    config.alpn_protocols = vec![b"h2".to_vec(), b"http/1.1".to_vec()];
    config
}

fn policy(text: &str) -> Policy {
    Policy::new("test", &toml::from_str::<PolicySpec>(text).unwrap()).unwrap()
}

fn recording() -> Policy {
    policy(&format!(
        "mode = \"allow\"\nrecord = \"tape\"\nallow = [{{ host = \"{HOST}\" }}, {{ host = \"{HOST}\", protocol = \"http\" }}]"
    ))
}

fn replaying() -> Policy {
    policy("mode = \"replay\"\ncassette = \"tape\"")
}

/// Answers with what it heard, and a number that no other answer has.
async fn echo(request: Request<Incoming>, heard: &Mutex<Vec<String>>) -> Response<Full<Bytes>> {
    let (head, body) = request.into_parts();
    let body = body.collect().await.unwrap().to_bytes();
    let host = head.headers.get("host").and_then(|host| host.to_str().ok()).unwrap_or_default();
    let number = {
        let mut heard = heard.lock().unwrap();
        let key = head.headers.get("authorization").map_or("", |key| key.to_str().unwrap());
        heard.push(format!("{} {host}{} {} {key}", head.method, head.uri, body.len()));
        heard.len()
    };
    let content = match head.uri.path() {
        "/large" => vec![7; 100_000],
        path => format!("{number} {path} {}", String::from_utf8_lossy(&body)).into_bytes(),
    };
    let mut response = Response::new(Full::from(content));
    let headers = response.headers_mut();
    headers.insert("set-cookie", HeaderValue::from_static(CANARY));
    headers.insert("x-own", HeaderValue::from_static("kept"));
    response
}

impl Bed {
    async fn new() -> Self {
        let authority = Authority::new().unwrap();
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let heard = Arc::new(Mutex::new(Vec::new()));
        let acceptor = TlsAcceptor::from(authority.server(&HostName::parse(HOST).unwrap()).unwrap());
        let own = Arc::clone(&heard);
        let serving = tokio::spawn(async move {
            while let Ok((stream, _)) = listener.accept().await {
                let (heard, acceptor) = (Arc::clone(&own), acceptor.clone());
                tokio::spawn(async move {
                    let mut first = [0];
                    let handle = service_fn(|request| async {
                        Ok::<_, std::convert::Infallible>(echo(request, &heard).await)
                    });
                    let http = hyper::server::conn::http1::Builder::new();
                    stream.peek(&mut first).await.unwrap();
                    if first == [0x16] {
                        let Ok(stream) = acceptor.accept(stream).await else { return };
                        let _ = http.serve_connection(TokioIo::new(stream), handle).await;
                    } else {
                        let _ = http.serve_connection(TokioIo::new(stream), handle).await;
                    }
                });
            }
        });
        let data = TempDir::new().unwrap();
        Self { data, authority, resolver: Arc::default(), address, heard, serving: vec![serving] }
    }

    fn heard(&self) -> Vec<String> {
        self.heard.lock().unwrap().clone()
    }

    /// The network of a new sandbox.
    fn gate(&self, policy: Policy) -> Arc<Gate> {
        self.gate_with(policy, Limits::default(), self.authority.pem())
    }

    fn gate_with(&self, policy: Policy, limits: Limits, trusted: &str) -> Arc<Gate> {
        let mapped = match policy.replayed() {
            // Who replays knows no way to the server.
            Some(_) => BTreeMap::new(),
            None => [(HostName::parse(HOST).unwrap(), self.address)].into(),
        };
        let dialer = Dialer::new(Arc::clone(&self.resolver) as Arc<dyn Resolve>, mapped);
        let cassettes = Arc::new(Cassettes::with_limits(self.data.path(), limits));
        let trust = Arc::new(Trust::of(trusting(trusted)));
        let interception = Interception::new(cassettes, trust).unwrap();
        let gate = Gate::new(Arc::new(policy), dialer, None).with_interception(Some(interception));
        gate.journal().begin(7);
        Arc::new(gate)
    }
}

/// Opens a stream as a guest does.
async fn open(gate: &Arc<Gate>, name: &str, port: u32) -> (DuplexStream, JoinHandle<ConnectionView>) {
    let (mut guest, host) = tokio::io::duplex(64 * 1024);
    let before = gate.journal().after(0).map_or(0, |view| view.revision);
    let own = Arc::clone(gate);
    let served = tokio::spawn(async move {
        connection::serve(host, &own).await;
        let mut last =
            own.journal().after(before).or_else(|| own.journal().after(0)).expect("in the journal");
        while let Some(later) = own.journal().after(last.revision) {
            last = later;
        }
        last
    });
    let target = Some(egress_request::Target::Name(name.to_owned()));
    frame::write(&mut guest, &wire::EgressRequest { target, port, execution: 7 }).await.unwrap();
    (guest, served)
}

async fn verdict(guest: &mut DuplexStream) -> Verdict {
    frame::read::<wire::EgressVerdict>(guest).await.unwrap().unwrap().verdict.unwrap()
}

/// A guest's side that is past the verdict, whenever that comes.
struct Told {
    guest: DuplexStream,
}

/// What carries HTTP.
trait Carrier: AsyncRead + AsyncWrite + Unpin + Send {}
impl<T: AsyncRead + AsyncWrite + Unpin + Send> Carrier for T {}

/// Shakes hands as a program that trusts its sandbox's authority. The agent takes the verdict away, so it is done with
/// by a relay here.
async fn tls(gate: &Arc<Gate>, told: Told) -> Box<dyn Carrier> {
    let pem = gate.interception().unwrap().ca_pem();
    let config = Arc::new(trusting(pem));
    let (near, far) = tokio::io::duplex(64 * 1024);
    tokio::spawn(relay(told.guest, far));
    let name = ServerName::try_from(HOST).unwrap();
    Box::new(TlsConnector::from(config).connect(name, near).await.expect("a handshake"))
}

/// As the agent: what the program says goes on at once, and the verdict is not for it.
async fn relay(guest: DuplexStream, program: DuplexStream) {
    let (mut from_host, mut to_host) = tokio::io::split(guest);
    let (mut from_program, mut to_program) = tokio::io::split(program);
    let up = async {
        let _ = tokio::io::copy(&mut from_program, &mut to_host).await;
        let _ = to_host.shutdown().await;
    };
    let down = async {
        let told = frame::read::<wire::EgressVerdict>(&mut from_host).await.unwrap().unwrap();
        if let Some(Verdict::Denied(denied)) = told.verdict {
            let _ = to_program.write_all(&denied.reply).await;
        }
        let _ = tokio::io::copy(&mut from_host, &mut to_program).await;
        let _ = to_program.shutdown().await;
    };
    tokio::join!(up, down);
}

/// A connection of a program's: over TLS, or plain.
async fn connect(gate: &Arc<Gate>, secure: bool) -> (Box<dyn Carrier>, JoinHandle<ConnectionView>) {
    let (guest, served) = open(gate, HOST, if secure { 443 } else { 80 }).await;
    if secure {
        return (tls(gate, Told { guest }).await, served);
    }
    let (near, far) = tokio::io::duplex(64 * 1024);
    tokio::spawn(relay(guest, far));
    (Box::new(near), served)
}

/// What a program gets for its requests on one connection: status, headers and body of each.
async fn ask(
    gate: &Arc<Gate>,
    secure: bool,
    requests: Vec<Request<Full<Bytes>>>,
) -> (Vec<(u16, HeaderMap, Bytes)>, ConnectionView) {
    let (carrier, served) = connect(gate, secure).await;
    let (mut sender, driving) = hyper::client::conn::http1::handshake(TokioIo::new(carrier)).await.unwrap();
    let driving = tokio::spawn(driving);
    let mut answers = Vec::new();
    for request in requests {
        sender.ready().await.unwrap();
        let (head, body) = sender.send_request(request).await.expect("an answer").into_parts();
        answers.push((head.status.as_u16(), head.headers, body.collect().await.unwrap().to_bytes()));
    }
    drop(sender);
    let _ = driving.await;
    (answers, served.await.unwrap())
}

fn request(method: &str, target: &str, body: &'static str) -> Request<Full<Bytes>> {
    Request::builder()
        .method(method)
        .uri(target)
        .header("host", HOST)
        .header("authorization", CANARY)
        .header("cookie", CANARY)
        .header("x-api-key", CANARY)
        .body(Full::from(body))
        .unwrap()
}

/// All that is on the disk.
fn written(bed: &Bed) -> String {
    let dir = bed.data.path().join("cassettes/tape");
    let mut text = std::fs::read_to_string(dir.join("index.jsonl")).unwrap_or_default();
    for blob in std::fs::read_dir(dir.join("blobs")).unwrap() {
        text.push_str(&String::from_utf8_lossy(&std::fs::read(blob.unwrap().path()).unwrap()));
    }
    text
}

#[tokio::test]
async fn what_was_recorded_is_answered_again_byte_for_byte_and_nobody_is_asked() {
    for secure in [true, false] {
        let bed = Bed::new().await;
        let all = || {
            vec![
                request("GET", "/a?x=1", ""),
                request("GET", "/a?x=1", ""),
                request("POST", "/a?x=1", "a body"),
                request("POST", "/a?x=1", "another"),
                request("HEAD", "/a", ""),
                request("GET", "/large", ""),
            ]
        };
        let (recorded, view) = ask(&bed.gate(recording()), secure, all()).await;
        let ConnectionState::Closed { rule, denial: None } = view.state else { panic!("{:?}", view.state) };
        let protocol = if secure { "tls api.example.com:443" } else { "http api.example.com:80" };
        assert_eq!(rule, format!("{protocol} record tape"));
        assert_eq!(recorded[0].2, "1 /a ");
        assert_eq!(recorded[2].2, "3 /a a body");
        assert_eq!(recorded[5].2.len(), 100_000);
        assert!(recorded.iter().all(|(status, headers, _)| {
            *status == 200 && headers["set-cookie"] == CANARY && headers["x-own"] == "kept"
        }));
        let heard = bed.heard();
        assert_eq!(heard.len(), 6);
        assert!(
            heard.iter().all(|heard| heard.ends_with(CANARY)),
            "its credential goes to the server: {heard:?}"
        );
        assert!(!written(&bed).contains(CANARY), "and nowhere else");

        let (replayed, view) = ask(&bed.gate(replaying()), secure, all()).await;
        let ConnectionState::Closed { rule, denial: None } = view.state else { panic!("{:?}", view.state) };
        assert_eq!(rule, "replay tape");
        for (recorded, replayed) in recorded.iter().zip(&replayed) {
            assert_eq!((recorded.0, &recorded.2), (replayed.0, &replayed.2));
            assert_eq!(recorded.1["content-length"], replayed.1["content-length"]);
            assert_eq!(recorded.1["date"], replayed.1["date"]);
            assert!(!replayed.1.contains_key("set-cookie"));
        }
        assert_eq!(bed.heard(), heard);
        assert_eq!(bed.resolver.0.load(Ordering::SeqCst), 0);
    }
}

#[tokio::test]
async fn what_was_not_recorded_is_a_typed_denial_and_nothing_leaves() {
    for secure in [true, false] {
        let bed = Bed::new().await;
        ask(&bed.gate(recording()), secure, vec![request("GET", "/a", ""), request("POST", "/b", "x")]).await;
        let heard = bed.heard();
        for missed in [request("GET", "/c", ""), request("GET", "/a?", ""), request("POST", "/b", "y")] {
            let gate = bed.gate(replaying());
            let asked = format!("{} {}", missed.method(), missed.uri());
            let (answers, view) = ask(&gate, secure, vec![missed]).await;
            let (status, headers, body) = &answers[0];
            let told: serde_json::Value = serde_json::from_slice(body).unwrap();
            assert_eq!(
                (*status, &headers["x-rekindle-denied"]),
                (403, &HeaderValue::from_static("not_recorded"))
            );
            assert_eq!(
                (&told["error"], &told["reason"], &told["request"], &told["rule"]),
                (&"network_denied".into(), &"not_recorded".into(), &asked.into(), &"replay tape".into())
            );
            assert_eq!(view.state.denial().unwrap().reason, DenialReason::NotRecorded);
            let summary = gate.journal().end(7);
            assert_eq!((summary.denied, summary.denials.len()), (1, 1));
        }
        assert_eq!((bed.heard(), bed.resolver.0.load(Ordering::SeqCst)), (heard, 0));
    }
}

#[tokio::test]
async fn in_replay_no_other_way_leads_out() {
    let bed = Bed::new().await;
    ask(&bed.gate(recording()), true, vec![request("GET", "/a", "")]).await;
    let gate = bed.gate(replaying());
    for (name, port, said, reason) in [
        ("ssh.example.com", 22, &b"SSH-2.0-client\r\n"[..], DenialReason::NotHttp),
        ("openai.gateway.internal", 80, b"GET / HTTP/1.1\r\n\r\n", DenialReason::NotRecorded),
        (
            HOST,
            80,
            b"CONNECT api.example.com:443 HTTP/1.1\r\nhost: api.example.com\r\n\r\n",
            DenialReason::Tunnel,
        ),
    ] {
        let (mut guest, served) = open(&gate, name, port).await;
        guest.write_all(said).await.unwrap();
        let Verdict::Denied(told) = verdict(&mut guest).await else { panic!("{name} was not denied") };
        assert_eq!(told.reason, reason.as_str(), "{name}");
        drop(guest);
        served.await.unwrap();
    }
    assert_eq!((bed.heard().len(), bed.resolver.0.load(Ordering::SeqCst)), (1, 0));
}

#[tokio::test]
async fn a_handshake_that_names_another_server_is_denied_before_anybody_is_dialled() {
    let bed = Bed::new().await;
    for policy in [recording(), replaying()] {
        let gate = bed.gate(policy);
        let (guest, served) = open(&gate, HOST, 443).await;
        let (near, far) = tokio::io::duplex(64 * 1024);
        tokio::spawn(relay(guest, far));
        let config = Arc::new(trusting(gate.interception().unwrap().ca_pem()));
        let other = ServerName::try_from("other.example.com").unwrap();
        let error = TlsConnector::from(config).connect(other, near).await.unwrap_err();
        assert!(error.to_string().contains("AccessDenied"), "{error}");
        let denial = served.await.unwrap().state.denial().cloned().unwrap();
        assert_eq!(denial.reason, DenialReason::ServerNameMismatch);
    }
    assert!(bed.heard().is_empty());
}

#[tokio::test]
async fn a_later_request_that_is_not_for_its_host_is_refused_after_the_first_is_answered() {
    let head = |more: &str| format!("{more}\r\n\r\n");
    for (later, reason) in [
        (head("GET /b HTTP/1.1\r\nhost: other.example.com"), DenialReason::HostMismatch),
        (
            head("GET https://other.example.com/ HTTP/1.1\r\nhost: api.example.com"),
            DenialReason::HostMismatch,
        ),
        (
            head(
                "POST /b HTTP/1.1\r\nhost: api.example.com\r\ncontent-length: 4\r\ntransfer-encoding: chunked",
            ),
            DenialReason::AmbiguousLength,
        ),
        (head("GET /b HTTP/1.1\r\nhost: api.example.com\r\nupgrade: websocket"), DenialReason::Tunnel),
    ] {
        for secure in [true, false] {
            let bed = Bed::new().await;
            let (mut carrier, served) = connect(&bed.gate(recording()), secure).await;
            let first = head("GET /a HTTP/1.1\r\nhost: api.example.com");
            carrier.write_all(first.as_bytes()).await.unwrap();
            carrier.write_all(later.as_bytes()).await.unwrap();
            let mut heard = Vec::new();
            let _ = carrier.read_to_end(&mut heard).await;
            let heard = String::from_utf8_lossy(&heard);
            assert!(heard.starts_with("HTTP/1.1 200 OK") && heard.contains("1 /a "), "{heard}");
            assert!(heard.contains(&format!("x-rekindle-denied: {reason}")), "{later}: {heard}");
            assert_eq!(served.await.unwrap().state.denial().unwrap().reason, reason);
            assert_eq!(bed.heard().len(), 1, "{later}");
        }
    }
}

#[tokio::test]
async fn a_body_beyond_the_limit_is_passed_on_and_not_recorded() {
    let bed = Bed::new().await;
    let limits = Limits { body: 99_999, ..Limits::default() };
    let gate = bed.gate_with(recording(), limits, bed.authority.pem());
    let (answers, _) = ask(&gate, true, vec![request("GET", "/large", ""), request("GET", "/a", "")]).await;
    assert_eq!(answers[0].2.len(), 100_000);
    let (answers, _) = ask(&bed.gate(replaying()), true, vec![request("GET", "/a", "")]).await;
    assert_eq!(answers[0].0, 200);
    let (answers, _) = ask(&bed.gate(replaying()), true, vec![request("GET", "/large", "")]).await;
    assert_eq!(answers[0].0, 403);
}

#[tokio::test]
async fn a_server_that_does_not_prove_its_name_is_not_recorded_and_gets_no_request() {
    let bed = Bed::new().await;
    let other = Authority::new().unwrap();
    let gate = bed.gate_with(recording(), Limits::default(), other.pem());
    let (guest, served) = open(&gate, HOST, 443).await;
    let (near, far) = tokio::io::duplex(64 * 1024);
    tokio::spawn(relay(guest, far));
    let config = Arc::new(trusting(gate.interception().unwrap().ca_pem()));
    assert!(TlsConnector::from(config).connect(ServerName::try_from(HOST).unwrap(), near).await.is_err());
    let ConnectionState::Failed { why } = served.await.unwrap().state else { panic!("it was let through") };
    assert!(why.contains("the TLS handshake with the server failed"), "{why}");
    assert!(bed.heard().is_empty());
}

#[tokio::test]
async fn one_sandbox_does_not_trust_anothers_authority() {
    let bed = Bed::new().await;
    let (gate, other) = (bed.gate(recording()), bed.gate(recording()));
    let (guest, served) = open(&gate, HOST, 443).await;
    let (near, far) = tokio::io::duplex(64 * 1024);
    tokio::spawn(relay(guest, far));
    let config = Arc::new(trusting(other.interception().unwrap().ca_pem()));
    assert!(TlsConnector::from(config).connect(ServerName::try_from(HOST).unwrap(), near).await.is_err());
    assert!(matches!(served.await.unwrap().state, ConnectionState::Failed { .. }));
    assert!(bed.heard().is_empty());
}

#[tokio::test]
async fn a_change_of_policy_ends_a_connection_that_would_be_read_in_another_way() {
    let bed = Bed::new().await;
    let gate = bed.gate(recording());
    let (mut carrier, served) = connect(&gate, true).await;
    carrier.write_all(b"GET /a HTTP/1.1\r\nhost: api.example.com\r\n\r\n").await.unwrap();
    let mut first = [0; 12];
    carrier.read_exact(&mut first).await.unwrap();
    assert_eq!(&first, b"HTTP/1.1 200");
    gate.set_policy(Arc::new(replaying()));
    let denial = served.await.unwrap().state.denial().cloned().unwrap();
    assert_eq!(denial.reason, DenialReason::PolicyChanged);
}

#[test]
fn a_policy_that_reads_connections_is_no_way_on_for_those_that_nobody_reads() {
    use crate::network::in_force::allows;
    use crate::network::policy::Target;
    let target = Target::Name(HostName::parse(HOST).unwrap());
    let plain = policy(&format!("mode = \"allow\"\nallow = [{{ host = \"{HOST}\" }}]"));
    let rule = |policy: &Policy| policy.decide(&target, 443).unwrap();
    for (policy, rule, allowed) in [
        (&plain, rule(&plain), true),
        (&recording(), rule(&plain), false),
        (&replaying(), rule(&plain), false),
        (&plain, rule(&recording()), false),
        (&recording(), rule(&recording()), true),
        (&recording(), rule(&replaying()), false),
        (&replaying(), rule(&replaying()), true),
    ] {
        assert_eq!(allows(policy, &rule, &target), allowed, "{rule} under {policy:?}");
    }
}

#[test]
fn answers_for_one_client_do_for_all() {
    let mut headers = HeaderMap::new();
    for name in ["accept-encoding", "if-none-match", "if-modified-since", "expect", "te", "range", "if-match"]
    {
        headers.insert(name, HeaderValue::from_static("x"));
    }
    super::headers::onward(&hyper::Method::GET, &mut headers);
    let mut left: Vec<_> = headers.keys().map(ToString::to_string).collect();
    left.sort();
    assert_eq!(left, ["accept-encoding", "if-match", "range"]);
    assert_eq!(headers["accept-encoding"], "identity");
}
