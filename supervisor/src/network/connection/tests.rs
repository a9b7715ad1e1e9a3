//! Connections from the first frame to the last byte, with servers on loopback that names are mapped to.

use std::io;
use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use tokio::io::DuplexStream;
use tokio::net::TcpListener;
use tokio::task::JoinHandle;

use super::*;
use crate::network::denial::ACCESS_DENIED;
use crate::network::dial::{Lookup, Resolve};
use crate::network::policy::{Access, PolicySpec, RuleSpec};

/// Answers every name with one address, and counts.
struct Counting {
    answer: IpAddr,
    asked: AtomicUsize,
}

impl Resolve for Counting {
    fn lookup<'a>(&'a self, _: &'a HostName) -> Lookup<'a> {
        self.asked.fetch_add(1, Ordering::SeqCst);
        Box::pin(async move { Ok(vec![self.answer]) })
    }

    fn own(&self) -> io::Result<Vec<IpAddr>> {
        Ok(Vec::new())
    }
}

struct Bed {
    policy: Policy,
    dialer: Dialer,
    resolver: Arc<Counting>,
}

fn rule(host: &str, port: u16, protocol: Protocol) -> RuleSpec {
    RuleSpec { host: host.to_owned(), ports: vec![port], protocol }
}

/// A policy for one host under each protocol, whose names lead to this server.
fn bed(server: Option<SocketAddr>) -> Bed {
    let allow = vec![
        rule("pypi.org", 443, Protocol::Tls),
        rule("deb.debian.org", 80, Protocol::Http),
        rule("git.example.com", 22, Protocol::Tcp),
        rule("*.wild.example.com", 443, Protocol::Tls),
    ];
    let spec = PolicySpec { mode: Access::Allow, presets: Vec::new(), allow };
    let mapped = server.map(|server| {
        ["pypi.org", "deb.debian.org", "git.example.com"]
            .map(|name| (HostName::parse(name).unwrap(), server))
            .into()
    });
    let resolver = Arc::new(Counting { answer: "127.0.0.1".parse().unwrap(), asked: AtomicUsize::new(0) });
    let dialer = Dialer::new(resolver.clone(), mapped.unwrap_or_default());
    Bed { policy: Policy::new("build", &spec).unwrap(), dialer, resolver }
}

impl Bed {
    /// Opens a stream as a guest does.
    async fn open(
        &self,
        target: egress_request::Target,
        port: u32,
    ) -> (DuplexStream, JoinHandle<Connection>) {
        let (mut guest, host) = tokio::io::duplex(64 * 1024);
        let (policy, dialer) = (self.policy.clone(), self.dialer.clone());
        let served = tokio::spawn(async move { serve(host, &policy, &dialer).await });
        let request = wire::EgressRequest { target: Some(target), port, execution: 7 };
        frame::write(&mut guest, &request).await.unwrap();
        (guest, served)
    }

    async fn name(&self, name: &str, port: u32) -> (DuplexStream, JoinHandle<Connection>) {
        self.open(egress_request::Target::Name(name.to_owned()), port).await
    }

    /// What a client that says this first is told, and what became of it.
    async fn denied(&self, name: &str, port: u32, said: &[u8]) -> (wire::EgressDenied, Denial) {
        let (mut guest, served) = self.name(name, port).await;
        guest.write_all(said).await.unwrap();
        let Verdict::Denied(told) = verdict(&mut guest).await else { panic!("{name}:{port} was not denied") };
        let connection = served.await.unwrap();
        assert_eq!(connection.execution, 7);
        let Outcome::Denied(denial) = connection.outcome else { panic!("{:?}", connection.outcome) };
        assert_eq!(told.reason, denial.reason.as_str());
        assert_eq!(told.message, denial.message());
        (told, denial)
    }
}

async fn verdict(guest: &mut DuplexStream) -> Verdict {
    frame::read::<wire::EgressVerdict>(guest).await.unwrap().unwrap().verdict.unwrap()
}

/// Takes one connection, reads it to its end, and answers.
fn server(listener: TcpListener, answer: &'static [u8]) -> JoinHandle<Vec<u8>> {
    tokio::spawn(async move {
        let (mut client, _) = listener.accept().await.unwrap();
        let mut heard = Vec::new();
        client.read_to_end(&mut heard).await.unwrap();
        client.write_all(answer).await.unwrap();
        heard
    })
}

async fn listen() -> (TcpListener, SocketAddr) {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    (listener, address)
}

/// A ClientHello for this name, or for none.
fn hello(name: Option<&str>) -> Vec<u8> {
    let prefixed = |body: &[u8]| [&u16::try_from(body.len()).unwrap().to_be_bytes()[..], body].concat();
    let extension = |kind: u16, body: &[u8]| [&kind.to_be_bytes()[..], &prefixed(body)].concat();
    let mut extensions = [extension(0x000d, &prefixed(&[4, 3])), extension(0x002b, &[2, 3, 4])].concat();
    if let Some(name) = name {
        let entry = [&[0][..], &prefixed(name.as_bytes())].concat();
        extensions.extend(extension(0, &prefixed(&entry)));
    }
    let body = [&[3, 3][..], &[7; 32], &[0], &prefixed(&[0x13, 1]), &[1, 0], &prefixed(&extensions)].concat();
    let message = [&[1, 0][..], &prefixed(&body)].concat();
    [&[22, 3, 1][..], &prefixed(&message)].concat()
}

#[tokio::test]
async fn an_allowed_tls_connection_reaches_its_server_byte_for_byte() {
    for size in [1, 1000] {
        let (listener, address) = listen().await;
        let heard = server(listener, b"and back");
        let (mut guest, served) = bed(Some(address)).name("PyPI.org.", 443).await;
        let said = [hello(Some("pypi.org")), vec![0x17; 100_000]].concat();
        let (mut reader, mut writer) = tokio::io::split(&mut guest);
        let (first, rest) = said.split_at(300.min(said.len()));
        let writing = async {
            for piece in first.chunks(size) {
                writer.write_all(piece).await.unwrap();
            }
            writer.write_all(rest).await.unwrap();
            writer.shutdown().await.unwrap();
        };
        let reading = async {
            let verdict = frame::read::<wire::EgressVerdict>(&mut reader).await.unwrap().unwrap();
            assert!(matches!(verdict.verdict, Some(Verdict::Accepted(_))));
            let mut answer = Vec::new();
            reader.read_to_end(&mut answer).await.unwrap();
            answer
        };
        let ((), answer) = tokio::join!(writing, reading);
        assert_eq!(answer, b"and back");
        assert_eq!(heard.await.unwrap(), said);
        let Outcome::Served { rule, up, down, denied } = served.await.unwrap().outcome else { panic!() };
        assert_eq!((rule.as_str(), up, down), ("tls pypi.org:443", said.len() as u64, 8));
        assert_eq!(denied, None);
    }
}

#[tokio::test]
async fn a_tls_client_that_is_denied_gets_the_alert_whatever_it_did_wrong() {
    let bed = bed(None);
    for (name, port, said, reason) in [
        ("evil.example", 443, hello(Some("evil.example")), DenialReason::NotAllowed),
        ("pypi.org", 8443, hello(Some("pypi.org")), DenialReason::Port),
        ("pypi.org", 443, hello(Some("evil.example")), DenialReason::ServerNameMismatch),
        ("pypi.org", 443, hello(None), DenialReason::NoServerName),
        ("a.wild.example.com", 443, hello(Some("b.wild.example.com")), DenialReason::ServerNameMismatch),
        ("deb.debian.org", 80, hello(Some("deb.debian.org")), DenialReason::NotHttp),
    ] {
        let (told, denial) = bed.denied(name, port, &said).await;
        assert_eq!(denial.reason, reason, "{name}");
        assert_eq!(told.reply, ACCESS_DENIED[..], "{name}");
    }
    assert_eq!(bed.resolver.asked.load(Ordering::SeqCst), 0, "a denied name was looked up");
}

#[tokio::test]
async fn an_http_client_that_is_denied_gets_403() {
    let bed = bed(None);
    for (name, port, said, reason) in [
        ("evil.example", 80, "GET / HTTP/1.1\r\nHost: evil.example\r\n\r\n", DenialReason::NotAllowed),
        ("pypi.org", 443, "GET / HTTP/1.1\r\nHost: pypi.org\r\n\r\n", DenialReason::NotTls),
        ("deb.debian.org", 80, "GET / HTTP/1.1\r\nHost: evil.example\r\n\r\n", DenialReason::HostMismatch),
        (
            "deb.debian.org",
            80,
            "CONNECT evil.example:443 HTTP/1.1\r\nHost: deb.debian.org\r\n\r\n",
            DenialReason::Tunnel,
        ),
        (
            "deb.debian.org",
            80,
            "POST / HTTP/1.1\r\nHost: deb.debian.org\r\nContent-Length: 1\r\nTransfer-Encoding: chunked\r\n\r\n",
            DenialReason::AmbiguousLength,
        ),
    ] {
        let (told, denial) = bed.denied(name, port, said.as_bytes()).await;
        assert_eq!(denial.reason, reason, "{said}");
        let reply = String::from_utf8(told.reply.to_vec()).unwrap();
        assert!(reply.starts_with("HTTP/1.1 403 "), "{reply}");
        assert!(reply.contains(reason.as_str()), "{reply}");
    }
    assert_eq!(bed.resolver.asked.load(Ordering::SeqCst), 0, "a denied name was looked up");
}

#[tokio::test]
async fn without_a_network_everything_is_denied_in_words() {
    let bed = Bed { policy: Policy::none(), ..bed(None) };
    let (told, denial) = bed.denied("pypi.org", 443, &hello(Some("pypi.org"))).await;
    assert_eq!(denial.reason, DenialReason::NetworkOff);
    assert_eq!(told.reply, ACCESS_DENIED[..]);
}

#[tokio::test]
async fn addresses_and_what_is_no_name_are_denied() {
    let bed = bed(None);
    for (target, reason) in [
        (egress_request::Target::Address(vec![169, 254, 169, 254].into()), "address_literal"),
        (egress_request::Target::Address([0; 16].to_vec().into()), "address_literal"),
        (egress_request::Target::Address(vec![1, 2, 3].into()), "invalid_name"),
        (egress_request::Target::Name("127.0.0.1".to_owned()), "invalid_name"),
        (egress_request::Target::Name("0x7f.1".to_owned()), "invalid_name"),
        (egress_request::Target::Name("pypi.org\0.evil.example".to_owned()), "invalid_name"),
        (egress_request::Target::Name("\u{202e}gro.ipyp".to_owned()), "invalid_name"),
        (egress_request::Target::Name(String::new()), "invalid_name"),
    ] {
        let (mut guest, served) = bed.open(target.clone(), 443).await;
        guest.write_all(&hello(Some("pypi.org"))).await.unwrap();
        let Verdict::Denied(told) = verdict(&mut guest).await else { panic!("{target:?}") };
        assert_eq!(told.reason, reason, "{target:?}");
        assert!(!told.message.chars().any(|letter| letter.is_control() || letter == '\u{202e}'));
        assert!(matches!(served.await.unwrap().outcome, Outcome::Denied(_)));
    }
}

#[tokio::test]
async fn an_allowed_name_that_leads_to_a_private_address_is_denied() {
    let (listener, address) = listen().await;
    let bed = bed(None);
    let rule = rule("rebind.example.com", address.port(), Protocol::Tls);
    let spec = PolicySpec { mode: Access::Allow, presets: Vec::new(), allow: vec![rule] };
    let bed = Bed { policy: Policy::new("rebind", &spec).unwrap(), ..bed };
    let said = hello(Some("rebind.example.com"));
    let (told, denial) = bed.denied("rebind.example.com", address.port().into(), &said).await;
    assert_eq!(denial.reason, DenialReason::PrivateAddress);
    assert_eq!(told.reply, ACCESS_DENIED[..]);
    assert_eq!(bed.resolver.asked.load(Ordering::SeqCst), 1);
    drop(listener);
}

#[tokio::test]
async fn ten_thousand_names_that_carry_data_ask_the_resolver_nothing() {
    let bed = bed(None);
    for number in 0..10_000 {
        let name = format!("{number:x}.secret.evil.example");
        let (told, _) = bed.denied(&name, 443, &[0x16]).await;
        assert_eq!(told.reason, "not_allowed");
    }
    assert_eq!(bed.resolver.asked.load(Ordering::SeqCst), 0);
}

#[tokio::test]
async fn below_a_wildcard_only_a_client_that_means_the_name_has_it_looked_up() {
    let bed = bed(None);
    let (told, _) = bed.denied("data.wild.example.com", 443, b"no handshake").await;
    assert_eq!(told.reason, "not_tls");
    assert_eq!(bed.resolver.asked.load(Ordering::SeqCst), 0);
}

#[tokio::test]
async fn a_later_request_for_another_host_is_refused_after_the_first_is_answered() {
    let first = "GET / HTTP/1.1\r\nHost: deb.debian.org\r\n\r\n";
    let second = "GET / HTTP/1.1\r\nHost: evil.example\r\n\r\n";
    for together in [true, false] {
        let (listener, address) = listen().await;
        let answer = b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok";
        let heard = server(listener, answer);
        let (mut guest, served) = bed(Some(address)).name("deb.debian.org", 80).await;
        if together {
            guest.write_all([first, second].concat().as_bytes()).await.unwrap();
        } else {
            guest.write_all(first.as_bytes()).await.unwrap();
        }
        assert!(matches!(verdict(&mut guest).await, Verdict::Accepted(_)));
        if !together {
            guest.write_all(second.as_bytes()).await.unwrap();
        }
        let mut answers = Vec::new();
        guest.read_to_end(&mut answers).await.unwrap();
        let answers = String::from_utf8(answers).unwrap();
        let refusal = answers.strip_prefix(std::str::from_utf8(answer).unwrap()).expect("the first answer");
        assert!(refusal.starts_with("HTTP/1.1 403 "), "{refusal}");
        assert!(refusal.contains("host_mismatch"), "{refusal}");
        assert_eq!(heard.await.unwrap(), first.as_bytes(), "the server saw more than the first request");
        let Outcome::Served { denied: Some(denial), .. } = served.await.unwrap().outcome else { panic!() };
        assert_eq!(denial.reason, DenialReason::HostMismatch);
    }
}

#[tokio::test]
async fn a_rule_for_tcp_passes_bytes_of_a_server_that_speaks_first() {
    let (listener, address) = listen().await;
    let (mut guest, served) = bed(Some(address)).name("git.example.com", 22).await;
    let (mut server, _) = listener.accept().await.unwrap();
    server.write_all(b"SSH-2.0-x\r\n").await.unwrap();
    assert!(matches!(verdict(&mut guest).await, Verdict::Accepted(_)));
    let mut banner = [0; 11];
    guest.read_exact(&mut banner).await.unwrap();
    assert_eq!(&banner, b"SSH-2.0-x\r\n");
    // The end of the guest's half is passed on, and so is the server's.
    drop(guest);
    assert_eq!(server.read(&mut banner).await.unwrap_or(0), 0);
    drop(server);
    assert!(matches!(served.await.unwrap().outcome, Outcome::Served { .. }));
}

#[tokio::test]
async fn a_server_that_is_not_there_is_told_as_such() {
    let (listener, address) = listen().await;
    drop(listener);
    let (mut guest, served) = bed(Some(address)).name("git.example.com", 22).await;
    let Verdict::Failed(failed) = verdict(&mut guest).await else { panic!() };
    assert!(failed.message.contains("git.example.com:22"), "{}", failed.message);
    assert!(matches!(served.await.unwrap().outcome, Outcome::Failed { port: 22, .. }));
}

#[tokio::test]
async fn a_guest_that_opens_a_stream_wrongly_gets_nothing() {
    let bed = bed(None);
    for opening in [&b""[..], b"\0\0\0\x05abc", b"\x7f\xff\xff\xff", b"\0\0\x04\x01", &[0xff; 2000]] {
        let (mut guest, host) = tokio::io::duplex(64 * 1024);
        let writing = async {
            guest.write_all(opening).await.unwrap();
            guest.shutdown().await.unwrap();
            let mut answer = Vec::new();
            let _ = guest.read_to_end(&mut answer).await;
            assert!(answer.is_empty());
        };
        let (connection, ()) = tokio::join!(serve(host, &bed.policy, &bed.dialer), writing);
        assert_eq!(connection.outcome, Outcome::Abandoned, "{opening:?}");
    }
}
