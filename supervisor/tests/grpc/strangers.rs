//! Who has not been admitted holds almost nothing: it is refused on its headers, read no further than its
//! allowance, gone after its time, and never in the place of somebody else.

use std::time::Duration;

use http::{HeaderMap, HeaderValue};
use rekindle::config::tokens::{Quota, Scope};
use rekindle::door::ConnectionLimits;
use rekindle_api::{Code, v1};
use rekindle_test_support::wait::{in_time, until};
use serde_json::Value;
use tempfile::TempDir;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::{TcpStream, UnixStream};
use tonic_health::pb::HealthCheckRequest;
use tonic_health::pb::health_check_response::ServingStatus;
use tonic_health::pb::health_client::HealthClient;

use crate::auth::{Authority, over_tls};
use crate::place::{Place, Wishes, token};
use crate::raw;

const PREFACE: &[u8] = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n\0\0\0\x04\0\0\0\0\0";
const HEALTH: &str = "/grpc.health.v1.Health/Check";

/// A supervisor whose socket asks for tokens too, and one of them.
async fn guarded(connections: ConnectionLimits) -> (Place, HeaderMap, TempDir) {
    let dir = tempfile::tempdir().expect("a directory");
    let file = dir.path().join("tokens.toml");
    let secret = token(&file, "good", "acme", &[Scope::Create, Scope::Exec], Quota::default());
    let wishes = Wishes { tokens: Some(file), socket_requires_token: true, connections, ..Wishes::default() };
    let place = Place::with(wishes).await;
    let shown = HeaderValue::from_str(&format!("Bearer {secret}")).expect("a header");
    (place, HeaderMap::from_iter([(http::header::AUTHORIZATION, shown)]), dir)
}

/// Method, decision and reason of every line.
fn lines(place: &Place) -> Vec<(String, String, String)> {
    let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
    place
        .audit()
        .iter()
        .map(|line| (text(&line["method"]), text(&line["decision"]), text(&line["reason"])))
        .collect()
}

/// Sends the same bytes again and again, and reads nothing, until the server hangs up or has taken this many.
async fn push(io: &mut UnixStream, bytes: &[u8], most: usize) -> usize {
    let mut taken = 0;
    while taken < most {
        match io.write(bytes).await {
            Ok(count) => taken += count,
            Err(_) => break,
        }
    }
    taken
}

#[tokio::test]
async fn without_a_token_a_call_is_refused_on_its_headers_and_its_body_is_not_read() {
    let (place, good, _dir) = guarded(ConnectionLimits::default()).await;
    let methods = [
        ("/rekindle.v1.Sandboxes/Execute", "Sandboxes/Execute"),
        ("/rekindle.v1.Files/Upload", "Files/Upload"),
        ("/rekindle.v1.Sandboxes/ExecuteStream", "Sandboxes/ExecuteStream"),
        ("/rekindle.v1.Host/Status", "Host/Status"),
        ("/rekindle.v1.Sandboxes/Nothing", "unknown"),
        ("/anything", "unknown"),
    ];
    // Whether or not somebody was admitted on the connection before.
    for admitted in [false, true] {
        let mut send = raw::connect(&place.socket).await;
        if admitted {
            let (answer, mut body) = raw::call(&mut send, "/rekindle.v1.Sandboxes/List", good.clone()).await;
            body.send_data(raw::framed(&[]), true).expect("sent");
            assert_eq!(raw::status(answer).await.code(), Code::Ok);
        }
        for (path, method) in methods {
            let before = place.audit().len();
            // A message of 4 MiB is announced, and most of it never comes.
            let (answer, mut body) = raw::call(&mut send, path, HeaderMap::new()).await;
            let _ = body.send_data(vec![0, 0, 0x3f, 0xff, 0xff, 1, 2, 3].into(), false);
            assert_eq!(raw::status(answer).await.code(), Code::Unauthenticated, "{path}");
            let reset = std::future::poll_fn(|cx| body.poll_reset(cx));
            let reset = in_time("the end of the stream", reset).await.expect("the connection goes on");
            assert_eq!(reset, h2::Reason::NO_ERROR, "nothing more is taken: {path}");
            let told = lines(&place).split_off(before);
            assert_eq!(told, [(method.into(), "denied".into(), "no_token".into())], "{path}");
        }
    }
}

#[tokio::test]
async fn what_an_admitted_caller_garbles_leaves_one_line_each() {
    let (place, good, _dir) = guarded(ConnectionLimits::default()).await;
    let mut send = raw::connect(&place.socket).await;
    let oversized = [&[0][..], &(1_u32 << 30).to_be_bytes()].concat();
    for (path, message, method, reason) in [
        (raw::EXECUTE, raw::framed(&[0xff; 100]), "Sandboxes/Execute", "malformed_request"),
        (raw::EXECUTE, oversized.clone().into(), "Sandboxes/Execute", "malformed_request"),
        (raw::EXECUTE, vec![9, 0, 0, 0, 0].into(), "Sandboxes/Execute", "malformed_request"),
        (
            "/rekindle.v1.Sandboxes/ExecuteStream",
            raw::framed(&[0xff; 100]),
            "Sandboxes/ExecuteStream",
            "malformed_request",
        ),
        ("/rekindle.v1.Files/Upload", oversized.into(), "Files/Upload", "malformed_request"),
        ("/rekindle.v1.Sandboxes/Nothing", raw::framed(&[]), "unknown", "unknown_method"),
        ("/anything", raw::framed(&[]), "unknown", "unknown_method"),
    ] {
        let before = place.audit().len();
        let (answer, mut body) = raw::call(&mut send, path, good.clone()).await;
        let _ = body.send_data(message, true);
        let status = raw::status(answer).await;
        assert_ne!(status.code(), Code::Ok, "{path}");
        let told = crate::place::detail(&status);
        assert!(
            !told.hint.is_empty() && told.reason() != rekindle_api::v1::ErrorReason::Unspecified,
            "{path}: {told:?}"
        );
        until("a line", || place.audit().len() > before).await;
        assert_eq!(
            lines(&place).split_off(before),
            [(method.into(), "rejected".into(), reason.into())],
            "{path}"
        );
        let line = place.audit().pop().expect("a line");
        assert_eq!((&line["tenant"], &line["token"]), (&"acme".into(), &"good".into()), "{line}");
    }
}

#[tokio::test]
async fn health_needs_no_token_and_is_small_and_a_few_at_a_time() {
    let (place, good, _dir) = guarded(ConnectionLimits::default()).await;
    let mut health = HealthClient::new(raw::channel(&place.socket).await);
    let ask = || HealthCheckRequest { service: "rekindle.v1.Sandboxes".into() };
    let status = health.check(ask()).await.expect("healthy").into_inner().status();
    assert_eq!(status, ServingStatus::Serving);
    let long = HealthCheckRequest { service: "x".repeat(20_000) };
    assert_eq!(health.check(long).await.expect_err("too long").code(), Code::OutOfRange);
    // Calls whose message never ends stay; so do few of them.
    let mut send = raw::connect(&place.socket).await;
    let mut held = Vec::new();
    for number in 0..20 {
        let (answer, body) = raw::call(&mut send, HEALTH, HeaderMap::new()).await;
        if number < 8 {
            held.push((answer, body));
        } else {
            assert_eq!(raw::status(answer).await.code(), Code::ResourceExhausted, "call {number}");
        }
    }
    // Who was admitted is not kept from calling by them, and each gives its place back.
    let (answer, mut body) = raw::call(&mut send, "/rekindle.v1.Sandboxes/List", good).await;
    body.send_data(raw::framed(&[]), true).expect("sent");
    assert_eq!(raw::status(answer).await.code(), Code::Ok);
    for (answer, mut body) in held {
        body.send_data(raw::framed(&[]), true).expect("sent");
        assert_eq!(raw::status(answer).await.code(), Code::Ok);
    }
    let (answer, mut body) = raw::call(&mut send, HEALTH, HeaderMap::new()).await;
    body.send_data(raw::framed(&[]), true).expect("sent");
    assert_eq!(raw::status(answer).await.code(), Code::Ok);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_stranger_is_read_no_further_than_its_allowance() {
    let connections = ConnectionLimits { stranger: Duration::from_secs(2), ..ConnectionLimits::default() };
    let (place, ..) = guarded(connections).await;
    let mut io = UnixStream::connect(&place.socket).await.expect("connected");
    io.write_all(PREFACE).await.expect("sent");
    // Frames of a kind nobody knows, which HTTP/2 skips whatever window there is.
    let frame = [&[0, 0x40, 0, 0x40, 0, 0, 0, 0, 0][..], &[0; 16 << 10]].concat();
    let taken = in_time("given up", push(&mut io, &frame, 256 << 20)).await;
    // The allowance, and what the kernel holds of a socket.
    assert!(taken < 2 << 20, "{taken} bytes");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn who_only_pings_and_never_reads_is_gone_after_its_time() {
    let ping = [&[0, 0, 8, 6, 0, 0, 0, 0, 0][..], &[7; 8]].concat().repeat(64);
    // A stranger, by its time; whoever may open the socket, by the writes that stand still.
    let soon = Duration::from_secs(1);
    let stranger =
        ConnectionLimits { stranger: soon, stranger_bytes: usize::MAX, ..ConnectionLimits::default() };
    let (strict, ..) = guarded(stranger).await;
    let stalled = ConnectionLimits { write_stall: soon, ..ConnectionLimits::default() };
    let trusting = Place::with(Wishes { connections: stalled, ..Wishes::default() }).await;
    for place in [strict, trusting] {
        let mut io = UnixStream::connect(&place.socket).await.expect("connected");
        io.write_all(PREFACE).await.expect("sent");
        let pushed = tokio::time::timeout(Duration::from_secs(30), push(&mut io, &ping, usize::MAX)).await;
        assert!(pushed.is_ok(), "it is still there");
    }
}

#[tokio::test]
async fn the_networks_places_are_not_the_sockets_and_no_address_takes_them_all() {
    let dir = tempfile::tempdir().expect("a directory");
    let file = dir.path().join("tokens.toml");
    let secret = token(&file, "good", "acme", &[Scope::Create], Quota::default());
    let ca = Authority::new();
    let long = Duration::from_secs(3600);
    let connections =
        ConnectionLimits { tcp: 3, per_address: 2, greeting: long, ..ConnectionLimits::default() };
    let tls = Some(ca.files(dir.path(), None));
    let place = Place::with(Wishes { tokens: Some(file), tls, connections, ..Wishes::default() }).await;
    let address = place.tcp.expect("a port");
    let connect = async || TcpStream::connect(address).await.expect("connected");
    // Two that say nothing have all that their address may have: the third is hung up on.
    let (first, _second) = (connect().await, connect().await);
    for _ in 0..3 {
        let mut third = connect().await;
        let ended = in_time("hung up", third.read(&mut [0; 1])).await;
        assert!(matches!(ended, Ok(0) | Err(_)), "{ended:?}");
    }
    // Whatever the network does, the socket serves.
    let mut local = place.client().await;
    place.sandbox(&mut local).await;
    // A place that is given back serves again.
    drop(first);
    let client = async {
        loop {
            let target = crate::auth::target(&place, &ca, None);
            if let Ok(client) = rekindle_api::client::Client::connect(&target, Some(&secret)).await {
                break client;
            }
        }
    };
    let mut client = in_time("a place", client).await;
    client.sandboxes.list(v1::ListSandboxesRequest::default()).await.expect("served");
}

#[tokio::test]
async fn when_strangers_have_all_places_of_the_network_the_socket_still_serves() {
    let dir = tempfile::tempdir().expect("a directory");
    let file = dir.path().join("tokens.toml");
    let secret = token(&file, "good", "acme", &[Scope::Create], Quota::default());
    let ca = Authority::new();
    let connections = ConnectionLimits {
        tcp: 4,
        per_address: 4,
        greeting: Duration::from_secs(3600),
        ..ConnectionLimits::default()
    };
    let tls = Some(ca.files(dir.path(), None));
    let place = Place::with(Wishes { tokens: Some(file), tls, connections, ..Wishes::default() }).await;
    let address = place.tcp.expect("a port");
    let mut strangers = Vec::new();
    for _ in 0..8 {
        strangers.push(TcpStream::connect(address).await.expect("connected"));
    }
    for _ in 0..8 {
        let mut local = place.client().await;
        in_time("an answer", local.sandboxes.list(v1::ListSandboxesRequest::default()))
            .await
            .expect("served");
    }
    // The network is served again once the strangers are gone.
    drop(strangers);
    let mut client = in_time("a place", over_tls(&place, &ca, Some(&secret))).await;
    client.sandboxes.list(v1::ListSandboxesRequest::default()).await.expect("served");
}
