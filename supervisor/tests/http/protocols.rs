//! HTTP/1.1 and HTTP/2 on one listener, with and without TLS; connections that misbehave; the end of the server.

use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use http::{Request, StatusCode};
use http_body_util::Empty;
use hyper::client::conn::{http1, http2};
use hyper_util::rt::{TokioExecutor, TokioIo};
use rcgen::{BasicConstraints, CertificateParams, DnType, IsCa, Issuer, KeyPair, KeyUsagePurpose};
use rekindle::door::{ConnectionLimits, TlsFiles};
use rekindle_test_support::wait::in_time;
use tokio::io::{AsyncRead, AsyncReadExt as _, AsyncWrite, AsyncWriteExt as _};
use tokio::net::TcpStream;
use tokio_rustls::TlsConnector;
use tokio_rustls::rustls::pki_types::{CertificateDer, ServerName, pem::PemObject as _};
use tokio_rustls::rustls::{ClientConfig, RootCertStore};

use crate::data_plane::Sandbox;
use crate::place::{Place, Wishes};

/// How long a stranger may stay.
const STRANGER: Duration = Duration::from_secs(2);

fn request(key: &str, uri: &str) -> Request<Empty<Bytes>> {
    let request = Request::builder().uri(uri).header("host", "sandboxes.test").header("x-api-key", key);
    request.body(Empty::new()).expect("a request")
}

/// The status of one request over HTTP/2.
async fn over_h2<IO: AsyncRead + AsyncWrite + Unpin + Send + 'static>(io: IO, key: &str) -> StatusCode {
    let made = http2::handshake(TokioExecutor::new(), TokioIo::new(io)).await;
    let (mut sender, connection) = made.expect("a connection");
    tokio::spawn(connection);
    let answer = sender.send_request(request(key, "http://sandboxes.test/v2/sandboxes")).await;
    answer.expect("an answer").status()
}

/// The status of one request over HTTP/1.1.
async fn over_h1<IO: AsyncRead + AsyncWrite + Unpin + Send + 'static>(io: IO, key: &str) -> StatusCode {
    let (mut sender, connection) = http1::handshake(TokioIo::new(io)).await.expect("a connection");
    tokio::spawn(connection);
    sender.send_request(request(key, "/v2/sandboxes")).await.expect("an answer").status()
}

/// The files of a server, and who trusts it.
pub fn certificates(dir: &Path) -> (TlsFiles, RootCertStore) {
    let mut params = CertificateParams::new(Vec::new()).expect("parameters");
    params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
    params.key_usages = vec![KeyUsagePurpose::KeyCertSign];
    // By its name an authority is told from what it signs.
    params.distinguished_name.push(DnType::CommonName, "an authority");
    let key = KeyPair::generate().expect("a key");
    let ca = params.self_signed(&key).expect("signed").pem();
    let issuer = Issuer::new(params, key);
    let own = KeyPair::generate().expect("a key");
    let names = vec!["sandboxes.test".to_owned(), "localhost".to_owned()];
    let mut params = CertificateParams::new(names).expect("parameters");
    // Clients that are strict ask for it.
    params.use_authority_key_identifier_extension = true;
    let cert = params.signed_by(&own, &issuer).expect("signed").pem();
    let files = TlsFiles { cert: dir.join("cert.pem"), key: dir.join("key.pem"), client_ca: None };
    std::fs::write(dir.join("ca.pem"), &ca).expect("written");
    std::fs::write(&files.cert, cert).expect("written");
    std::fs::write(&files.key, own.serialize_pem()).expect("written");
    let mode = std::os::unix::fs::PermissionsExt::from_mode(0o600);
    std::fs::set_permissions(&files.key, mode).expect("closed to others");
    let mut roots = RootCertStore::empty();
    roots.add(CertificateDer::from_pem_slice(ca.as_bytes()).expect("a certificate")).expect("added");
    (files, roots)
}

#[tokio::test]
async fn one_listener_speaks_both_versions() {
    let place = Place::new().await;
    let connect = async || TcpStream::connect(place.address).await.expect("connected");
    let asking = async {
        assert_eq!(over_h1(connect().await, &place.key).await, StatusCode::OK);
        assert_eq!(over_h2(connect().await, &place.key).await, StatusCode::OK);
    };
    in_time("answers", asking).await;
}

#[tokio::test]
async fn with_tls_the_client_chooses_the_version() {
    let dir = tempfile::tempdir().expect("a directory");
    let (files, roots) = certificates(dir.path());
    let place = Place::with(Wishes { tls: Some(files), ..Wishes::default() }).await;
    for offered in [&["h2", "http/1.1"][..], &["http/1.1"], &[]] {
        let mut config = ClientConfig::builder().with_root_certificates(roots.clone()).with_no_client_auth();
        config.alpn_protocols = offered.iter().map(|name| name.as_bytes().to_vec()).collect();
        let stream = TcpStream::connect(place.address).await.expect("connected");
        let name = ServerName::try_from("sandboxes.test").expect("a name");
        let stream = TlsConnector::from(Arc::new(config)).connect(name, stream).await.expect("TLS");
        let chosen = stream.get_ref().1.alpn_protocol().map(<[u8]>::to_vec);
        let asking = async {
            match offered.first() {
                Some(&"h2") => {
                    assert_eq!(chosen.as_deref(), Some(&b"h2"[..]));
                    over_h2(stream, &place.key).await
                }
                _ => over_h1(stream, &place.key).await,
            }
        };
        assert_eq!(in_time("an answer", asking).await, StatusCode::OK, "{offered:?}");
    }
    // Plain text gets no answer of ours.
    let mut plain = TcpStream::connect(place.address).await.expect("connected");
    plain.write_all(b"GET /v2/sandboxes HTTP/1.1\r\nhost: a\r\n\r\n").await.expect("sent");
    let mut answer = Vec::new();
    let _ = in_time("its end", plain.read_to_end(&mut answer)).await;
    assert!(!answer.starts_with(b"HTTP"), "{answer:?}");
}

#[tokio::test]
async fn who_says_nothing_or_is_not_admitted_is_gone_in_time_and_one_address_has_its_share() {
    let connections = ConnectionLimits {
        greeting: Duration::from_secs(1),
        stranger: STRANGER,
        per_address: 2,
        ..ConnectionLimits::default()
    };
    let place = Place::with(Wishes { connections, ..Wishes::default() }).await;
    let connect = async || TcpStream::connect(place.address).await.expect("connected");
    // One that never speaks, and one that never shows a key.
    let (mut silent, mut stranger) = (connect().await, connect().await);
    stranger.write_all(b"GET /v2/sandboxes HTTP/1.1\r\nhost: a\r\n\r\n").await.expect("sent");
    let mut third = connect().await;
    let closed = in_time("no place for a third", third.read(&mut [0; 16])).await;
    assert!(matches!(closed, Ok(0) | Err(_)), "{closed:?}");
    let mut heard = Vec::new();
    let _ = in_time("the silent one is gone", silent.read_to_end(&mut heard)).await;
    assert!(heard.is_empty(), "{heard:?}");
    let _ = in_time("the stranger is gone", stranger.read_to_end(&mut heard)).await;
    assert!(heard.starts_with(b"HTTP/1.1 401"), "{heard:?}");
    // Who is admitted stays.
    let mut good = connect().await;
    let hello = format!("GET /v2/sandboxes HTTP/1.1\r\nhost: a\r\nx-api-key: {}\r\n\r\n", place.key);
    let mut buffer = [0; 4096];
    for _ in 0..2 {
        good.write_all(hello.as_bytes()).await.expect("sent");
        let count = in_time("an answer", good.read(&mut buffer)).await.expect("read");
        assert!(buffer[..count].starts_with(b"HTTP/1.1 200"));
        tokio::time::sleep(STRANGER).await;
    }
}

#[tokio::test]
async fn requests_that_could_be_read_in_two_ways_are_refused() {
    let place = Place::new().await;
    let key = &place.key;
    for (what, headers) in [
        ("both lengths", "content-length: 4\r\ntransfer-encoding: chunked\r\n"),
        ("two lengths", "content-length: 4\r\ncontent-length: 5\r\n"),
        ("no number", "content-length: 4x\r\n"),
        ("an encoding nobody knows", "transfer-encoding: chunked, gzip\r\n"),
        ("a line that is no header", "x-key\x0b: 1\r\n"),
    ] {
        let mut stream = TcpStream::connect(place.address).await.expect("connected");
        let smuggled = "GET /v2/sandboxes HTTP/1.1\r\nhost: a\r\n\r\n";
        let text = format!(
            "POST /sandboxes HTTP/1.1\r\nhost: a\r\nx-api-key: {key}\r\n{headers}\r\n0\r\n\r\n{smuggled}"
        );
        stream.write_all(text.as_bytes()).await.expect("sent");
        let mut answer = Vec::new();
        let reading = stream.read_to_end(&mut answer);
        let _ = in_time(what, reading).await;
        let answer = String::from_utf8_lossy(&answer);
        assert!(answer.starts_with("HTTP/1.1 400"), "{what}: {answer}");
        assert_eq!(answer.matches("HTTP/1.1").count(), 1, "{what}: {answer}");
    }
    assert_eq!(place.get("/v2/sandboxes").await.status, StatusCode::OK);
}

#[tokio::test]
async fn a_stopped_server_finishes_what_it_has_and_takes_nothing_more() {
    let place = Place::new().await;
    let stream = TcpStream::connect(place.address).await.expect("connected");
    let (mut sender, connection) = http1::handshake(TokioIo::new(stream)).await.expect("a connection");
    tokio::spawn(connection);
    let answer = sender.send_request(request(&place.key, "/v2/sandboxes")).await.expect("an answer");
    assert_eq!(answer.status(), StatusCode::OK);
    drop(answer);
    place.handle.stop();
    let (address, serving) = (place.address, place.serving);
    in_time("its end", serving).await.expect("served");
    // Another server may have got the address meanwhile; it does not know the key.
    if let Ok(stream) = TcpStream::connect(address).await {
        let (mut sender, connection) = http1::handshake(TokioIo::new(stream)).await.expect("a connection");
        tokio::spawn(connection);
        let answer = sender.send_request(request(&place.key, "/v2/sandboxes")).await;
        assert!(answer.is_err() || answer.is_ok_and(|answer| answer.status() != StatusCode::OK));
    }
}

#[tokio::test]
async fn a_connection_without_requests_is_closed_and_one_with_a_long_answer_is_not() {
    let limits = ConnectionLimits { idle: Duration::from_millis(300), ..ConnectionLimits::default() };
    let place = Place::with(Wishes { connections: limits, ..Wishes::default() }).await;
    let stream = TcpStream::connect(place.address).await.expect("connected");
    let made = http2::handshake(TokioExecutor::new(), TokioIo::new(stream)).await;
    let (mut sender, connection) = made.expect("a connection");
    let connection = tokio::spawn(connection);
    let asked = request(&place.key, "http://sandboxes.test/v2/sandboxes");
    let answer = sender.send_request(asked).await.expect("an answer");
    assert_eq!(answer.status(), StatusCode::OK);
    drop(answer);
    in_time("its end", connection).await.expect("no panic").expect("in good order");
    let asked = request(&place.key, "http://sandboxes.test/v2/sandboxes");
    assert!(sender.send_request(asked).await.is_err(), "it is closed");

    let sandbox = Sandbox::new(&place).await;
    let (_, events) = sandbox.start("sleep 2000; echo late").await;
    let (printed, ..) = events.rest().await;
    assert_eq!(printed, b"late\n", "an answer that goes on is not idle");
}
