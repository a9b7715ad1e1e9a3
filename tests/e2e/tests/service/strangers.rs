//! A thousand connections of strangers, each from an address of its own, beside an operator and a tenant who notice
//! nothing.

use std::net::{Ipv4Addr, SocketAddr, SocketAddrV4};
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use rekindle_e2e::cli::{rekindle, token};
use rekindle_e2e::leftovers;
use rekindle_test_support::wait::until;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::{TcpSocket, TcpStream};
use tokio::task::JoinSet;
use tokio_rustls::TlsConnector;
use tokio_rustls::client::TlsStream;
use tokio_rustls::rustls::pki_types::pem::PemObject as _;
use tokio_rustls::rustls::pki_types::{CertificateDer, ServerName};
use tokio_rustls::rustls::{ClientConfig, RootCertStore, crypto};

use crate::guarded::{Remote, over_tcp};

const STRANGERS: u16 = 1_000;
/// What the configuration's reference says that each may hold of the server's memory.
const EACH_KIB: u64 = 256;
/// Rounds of what the others do meanwhile.
const ROUNDS: usize = 10;

const PREFACE: &[u8] = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n\0\0\0\x04\0\0\0\0\0";
/// The beginning of a TLS handshake whose rest never comes.
const HALF_A_HELLO: &[u8] = &[0x16, 3, 1, 2, 0, 1, 0, 1, 0xfc, 3, 3];
const PING: &[u8] = b"\0\0\x08\x06\0\0\0\0\0stranger";
/// What one connection sends before it rests, at most.
const MOST: usize = 1 << 20;

/// What a stranger does with a connection; it reads nothing.
#[derive(Clone, Copy)]
enum Manner {
    Silent,
    HalfAHello,
    /// Pings whose answers nobody reads.
    Pings,
    /// A message of a call without a token that is never whole.
    HalfAMessage,
}

const MANNERS: [Manner; 4] = [Manner::Silent, Manner::HalfAHello, Manner::Pings, Manner::HalfAMessage];

/// Where they connect to, and how many have a connection.
struct Crowd {
    server: SocketAddr,
    tls: TlsConnector,
    connected: AtomicUsize,
}

impl Crowd {
    async fn connect(&self, number: u16) -> std::io::Result<TcpStream> {
        let [high, low] = number.to_be_bytes();
        let socket = TcpSocket::new_v4()?;
        socket.bind(SocketAddrV4::new(Ipv4Addr::new(127, 9, high, low), 0).into())?;
        socket.connect(self.server).await
    }

    async fn shake_hands(&self, stream: TcpStream) -> std::io::Result<TlsStream<TcpStream>> {
        let name = ServerName::IpAddress(self.server.ip().into());
        let mut stream = self.tls.connect(name, stream).await?;
        stream.write_all(PREFACE).await?;
        Ok(stream)
    }

    /// One connection until the server ends it.
    async fn visit(&self, number: u16, manner: Manner) -> std::io::Result<()> {
        let mut stream = self.connect(number).await?;
        self.connected.fetch_add(1, Ordering::Relaxed);
        let over = async {
            let said = match manner {
                Manner::Silent => return stream.read(&mut [0]).await.map(drop),
                Manner::HalfAHello => {
                    stream.write_all(HALF_A_HELLO).await?;
                    return stream.read(&mut [0]).await.map(drop);
                }
                Manner::Pings => PING.repeat(MOST / PING.len()),
                Manner::HalfAMessage => {
                    [headers(), data(&[0, 0, 0x3f, 0xff, 0xff]), data(&[0; 16_000])].concat()
                }
            };
            let mut stream = self.shake_hands(stream).await?;
            stream.write_all(&said).await?;
            stream.flush().await?;
            // Reads nothing: it is the server that ends this, and a write that tells.
            loop {
                tokio::time::sleep(Duration::from_secs(1)).await;
                stream.write_all(PING).await?;
                stream.flush().await?;
            }
        };
        let over: std::io::Result<()> = over.await;
        self.connected.fetch_sub(1, Ordering::Relaxed);
        over
    }

    /// Comes again and again.
    async fn pester(&self, number: u16) {
        let manner = MANNERS[usize::from(number) % MANNERS.len()];
        loop {
            let _ = self.visit(number, manner).await;
            tokio::time::sleep(Duration::from_millis(500)).await;
        }
    }
}

fn frame(kind: u8, flags: u8, body: &[u8]) -> Vec<u8> {
    let length = u32::try_from(body.len()).expect("short").to_be_bytes();
    [&length[1..], &[kind, flags, 0, 0, 0, 1], body].concat()
}

fn data(body: &[u8]) -> Vec<u8> {
    frame(0, 0, body)
}

/// Headers of a call, not compressed.
fn headers() -> Vec<u8> {
    let text = |text: &str| [&[u8::try_from(text.len()).expect("short")][..], text.as_bytes()].concat();
    let named = |name: &str, value: &str| [vec![0], text(name), text(value)].concat();
    let block = [
        vec![0x83, 0x87, 0x04],
        text("/rekindle.v1.Sandboxes/Execute"),
        vec![0x01],
        text("rekindle.invalid"),
        named("content-type", "application/grpc"),
        named("te", "trailers"),
    ];
    frame(1, 4, &block.concat())
}

fn trusting(certificate: &Path) -> TlsConnector {
    let mut roots = RootCertStore::empty();
    roots.add(CertificateDer::from_pem_file(certificate).expect("a certificate")).expect("an anchor");
    let mut config = ClientConfig::builder_with_provider(Arc::new(crypto::ring::default_provider()))
        .with_safe_default_protocol_versions()
        .expect("versions")
        .with_root_certificates(roots)
        .with_no_client_auth();
    config.alpn_protocols = vec![b"h2".to_vec()];
    TlsConnector::from(Arc::new(config))
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_thousand_strangers_hold_little_and_keep_nobody_from_working() {
    let lab = lab!();
    let _turn = lab.turn().await;
    let data = lab.copy();
    let data = data.path();
    let file = data.join("tokens.toml").display().to_string();
    let secret = token(data, &file, "tenant", "acme", "create,exec").await;
    let (mut server, ca) = over_tcp(data, &file).await;
    let on = Remote { data, url: server.https().await, ca };
    let created = on.text(&secret, &["create", "--ttl", "30m"]).await;
    let id = created.trim_end();
    let before = server.held();

    let address = on.url.strip_prefix("https://").expect("an address").parse().expect("an address");
    let crowd = Arc::new(Crowd { server: address, tls: trusting(&on.ca), connected: AtomicUsize::new(0) });
    let mut strangers = JoinSet::new();
    for number in 0..STRANGERS {
        let crowd = Arc::clone(&crowd);
        strangers.spawn(async move { crowd.pester(number).await });
    }
    // Those that the server has just ended come again in a moment.
    let most = usize::from(STRANGERS) * 9 / 10;
    until("a thousand are connected", || crowd.connected.load(Ordering::Relaxed) >= most).await;
    let mut peak = 0;
    for round in 0..ROUNDS {
        let listed = rekindle(data, &["ps", "--server", &server.address()]).await;
        assert!(listed.code == Some(0) && listed.stdout.contains(id), "round {round}: {listed:?}");
        let said = on.text(&secret, &["exec", id, "--sh", "echo still here"]).await;
        assert_eq!(said, "still here\n", "round {round}");
        peak = peak.max(server.held().rss_kib);
    }
    let connected = crowd.connected.load(Ordering::Relaxed);
    assert!(connected >= most / 2, "they are there to the end: {connected}");
    let grown = peak.saturating_sub(before.rss_kib);
    println!("{connected} strangers at the end; the server holds {grown} KiB more than before");
    assert!(grown < u64::from(STRANGERS) * EACH_KIB, "{grown} KiB more");

    strangers.shutdown().await;
    // The pool may have made machines meanwhile.
    let few = before.descriptors + usize::from(STRANGERS) / 10;
    until("the server forgets them", || server.held().descriptors <= few).await;
    on.text(&secret, &["rm", id]).await;
    server.stop(&leftovers::machines(data)).await;
}
