//! Connections from the first frame to the last byte, with servers on loopback that names are mapped to.

use std::io;
use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use tokio::io::DuplexStream;
use tokio::net::TcpListener;
use tokio::task::JoinHandle;

use super::*;
use crate::network::denial::{ACCESS_DENIED, INTERNAL_ERROR};
use crate::network::dial::{Dialer, Lookup, Resolve};
use crate::network::journal::ConnectionView;
use crate::network::policy::{Access, Budget, PolicySpec, RuleSpec};

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
    RuleSpec { host: host.to_owned(), ports: vec![port], protocol, record: None }
}

/// A policy for one host under each protocol, whose names lead to this server.
fn bed(server: Option<SocketAddr>) -> Bed {
    let allow = vec![
        rule("pypi.org", 443, Protocol::Tls),
        rule("deb.debian.org", 80, Protocol::Http),
        rule("git.example.com", 22, Protocol::Tcp),
        rule("*.wild.example.com", 443, Protocol::Tls),
    ];
    let spec = PolicySpec { mode: Access::Allow, allow, ..PolicySpec::default() };
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
    ) -> (DuplexStream, JoinHandle<ConnectionView>) {
        let (mut guest, host) = tokio::io::duplex(64 * 1024);
        let gate = self.gate();
        let served = tokio::spawn(async move {
            serve(host, &gate).await;
            gate.journal().after(0).expect("it is in the journal")
        });
        let request = wire::EgressRequest { target: Some(target), port, execution: 7 };
        frame::write(&mut guest, &request).await.unwrap();
        (guest, served)
    }

    /// A gate of its own, on which the execution 7 is under way.
    fn gate(&self) -> Arc<Gate> {
        let gate = Gate::new(Arc::new(self.policy.clone()), self.dialer.clone(), None);
        gate.journal().begin(7);
        Arc::new(gate)
    }

    async fn name(&self, name: &str, port: u32) -> (DuplexStream, JoinHandle<ConnectionView>) {
        self.open(egress_request::Target::Name(name.to_owned()), port).await
    }

    /// What a client that says this first is told, and what became of it.
    async fn denied(&self, name: &str, port: u32, said: &[u8]) -> (wire::EgressDenied, Denial) {
        let (mut guest, served) = self.name(name, port).await;
        guest.write_all(said).await.unwrap();
        let Verdict::Denied(told) = verdict(&mut guest).await else { panic!("{name}:{port} was not denied") };
        let connection = served.await.unwrap();
        assert_eq!(connection.execution, 7);
        let ConnectionState::Denied(denial) = connection.state else { panic!("{:?}", connection.state) };
        assert_eq!(told.reason, denial.reason.as_str());
        assert_eq!(told.message, denial.message());
        assert_eq!(told.record, denial.json());
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
        let connection = served.await.unwrap();
        assert_eq!((connection.up, connection.down), (said.len() as u64, 8));
        assert_eq!((connection.host.as_str(), connection.port), ("pypi.org", 443));
        let ConnectionState::Closed { rule, denial: None } = connection.state else { panic!() };
        assert_eq!(rule, "tls pypi.org:443");
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
async fn a_handshake_in_pieces_of_one_byte_is_held_to_its_server_all_the_same() {
    let bed = bed(None);
    for (said, reason) in [
        (hello(Some("evil.example")), DenialReason::ServerNameMismatch),
        (hello(None), DenialReason::NoServerName),
    ] {
        let (mut guest, served) = bed.name("pypi.org", 443).await;
        for byte in said {
            guest.write_all(&[byte]).await.unwrap();
            // The host has looked at it before the next one is there.
            tokio::task::yield_now().await;
        }
        let Verdict::Denied(told) = verdict(&mut guest).await else { panic!("it was let through") };
        assert_eq!(told.reply, ACCESS_DENIED[..]);
        assert_eq!(served.await.unwrap().state.denial().expect("a denial").reason, reason);
    }
    assert_eq!(bed.resolver.asked.load(Ordering::SeqCst), 0, "it was looked up");
}

#[tokio::test(start_paused = true)]
async fn a_client_that_takes_its_time_is_told_in_its_protocol_where_clients_speak_first() {
    let bed = bed(None);
    for (port, told) in [(443, true), (22, false)] {
        let (mut guest, _) = bed.name("other.example.com", port).await;
        tokio::time::sleep(Duration::from_secs(6)).await;
        let _ = guest.write_all(&hello(Some("other.example.com"))).await;
        let Verdict::Denied(denied) = verdict(&mut guest).await else { panic!("it is denied") };
        assert_eq!(!denied.reply.is_empty(), told, "port {port}");
    }
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
        assert!(matches!(served.await.unwrap().state, ConnectionState::Denied(_)));
    }
}

#[tokio::test]
async fn an_allowed_name_that_leads_to_a_private_address_is_denied() {
    let (listener, address) = listen().await;
    let bed = bed(None);
    let rule = rule("rebind.example.com", address.port(), Protocol::Tls);
    let spec = PolicySpec { mode: Access::Allow, allow: vec![rule], ..PolicySpec::default() };
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
        let state = served.await.unwrap().state;
        let denial = state.denial().expect("a denial");
        assert_eq!(denial.reason, DenialReason::HostMismatch);
    }
}

#[tokio::test]
async fn a_request_beyond_the_budget_is_refused_after_those_before_it_are_answered() {
    const ANSWER: &[u8] = b"HTTP/1.1 204 No Content\r\n\r\n";
    const REQUEST: &str = "GET / HTTP/1.1\r\nHost: deb.debian.org\r\n\r\n";
    let (listener, address) = listen().await;
    let heard = server(listener, ANSWER);
    let mut bed = bed(Some(address));
    let spec = PolicySpec {
        mode: Access::Allow,
        allow: vec![rule("deb.debian.org", 80, Protocol::Http)],
        budget: Budget { requests: Some(2), ..Budget::default() },
        ..PolicySpec::default()
    };
    bed.policy = Policy::new("build", &spec).unwrap();
    let (mut guest, served) = bed.name("deb.debian.org", 80).await;
    guest.write_all(REQUEST.repeat(3).as_bytes()).await.unwrap();
    assert!(matches!(verdict(&mut guest).await, Verdict::Accepted(_)));
    let mut answer = Vec::new();
    guest.read_to_end(&mut answer).await.unwrap();
    let answer = String::from_utf8(answer).unwrap();
    let (first, refusal) = answer.split_at(ANSWER.len());
    assert_eq!(first.as_bytes(), ANSWER);
    assert!(refusal.starts_with("HTTP/1.1 403") && refusal.contains("budget_spent"), "{refusal}");
    assert_eq!(heard.await.unwrap(), REQUEST.repeat(2).as_bytes());
    let denial = served.await.unwrap().state.denial().map(|denial| denial.reason);
    assert_eq!(denial, Some(DenialReason::BudgetSpent));
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
    assert!(matches!(served.await.unwrap().state, ConnectionState::Closed { denial: None, .. }));
}

#[tokio::test]
async fn a_server_that_is_not_there_is_told_as_such() {
    let (listener, address) = listen().await;
    drop(listener);
    let (mut guest, served) = bed(Some(address)).name("git.example.com", 22).await;
    let Verdict::Failed(failed) = verdict(&mut guest).await else { panic!() };
    assert!(failed.message.contains("git.example.com:22"), "{}", failed.message);
    let connection = served.await.unwrap();
    assert_eq!(connection.port, 22);
    assert!(matches!(connection.state, ConnectionState::Failed { .. }));
    // In the client's own protocol, where it has one.
    for (name, port, said, reply) in [
        ("pypi.org", 443, hello(Some("pypi.org")), &INTERNAL_ERROR[..]),
        ("deb.debian.org", 80, b"GET / HTTP/1.1\r\nHost: deb.debian.org\r\n\r\n".to_vec(), b"HTTP/1.1 502 "),
        ("git.example.com", 22, b"SSH-2.0-x\r\n".to_vec(), b""),
    ] {
        let (mut guest, _) = bed(Some(address)).name(name, port).await;
        guest.write_all(&said).await.unwrap();
        let Verdict::Failed(failed) = verdict(&mut guest).await else { panic!("{name}") };
        assert!(failed.reply.starts_with(reply) && failed.reply.is_empty() == reply.is_empty(), "{name}");
    }
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
        let gate = bed.gate();
        tokio::join!(serve(host, &gate), writing);
        assert_eq!(gate.journal().after(0), None, "{opening:?}");
    }
}

fn full(budget: Budget) -> Policy {
    Policy::new("open", &PolicySpec { mode: Access::Full, budget, ..PolicySpec::default() }).unwrap()
}

#[tokio::test]
async fn a_full_policy_reaches_any_name_and_port_and_still_no_private_address() {
    let (listener, address) = listen().await;
    let heard = server(listener, b"here");
    let bed = Bed { policy: full(Budget::default()), ..bed(Some(address)) };
    let (mut guest, served) = bed.name("git.example.com", 9999).await;
    guest.write_all(b"anything").await.unwrap();
    guest.shutdown().await.unwrap();
    assert!(matches!(verdict(&mut guest).await, Verdict::Accepted(_)));
    let mut answer = Vec::new();
    guest.read_to_end(&mut answer).await.unwrap();
    assert_eq!((answer.as_slice(), heard.await.unwrap().as_slice()), (&b"here"[..], &b"anything"[..]));
    let ConnectionState::Closed { rule, denial: None } = served.await.unwrap().state else { panic!() };
    assert_eq!(rule, "tcp *:9999");
    // Addresses are dialled as they are, and screened as any other; names that nobody mapped are looked up.
    for private in [&[127, 0, 0, 1][..], &[10, 0, 0, 1], &[169, 254, 169, 254], &[0; 15]] {
        let target = egress_request::Target::Address(private.to_vec().into());
        let (mut guest, _) = bed.open(target, address.port().into()).await;
        guest.write_all(b"GET / HTTP/1.1\r\n\r\n").await.unwrap();
        let Verdict::Denied(told) = verdict(&mut guest).await else { panic!("{private:?} was dialled") };
        let reason = if private.len() == 4 { "private_address" } else { "invalid_name" };
        assert_eq!(told.reason, reason, "{private:?}");
    }
    let (told, _) = bed.denied("rebind.example.com", 80, b"GET / HTTP/1.1\r\n\r\n").await;
    assert_eq!(told.reason, "private_address");
}

#[tokio::test]
async fn a_budget_that_ends_in_the_middle_cuts_the_connection_and_denies_the_next() {
    let (listener, address) = listen().await;
    let sending = tokio::spawn(async move {
        let (mut client, _) = listener.accept().await.unwrap();
        // More than the budget has; it is cut off at some point.
        let _ = client.write_all(&vec![1; 1 << 20]).await;
    });
    let budget = Budget { bytes_down: Some(100_000), ..Budget::default() };
    let bed = Bed { policy: full(budget), ..bed(Some(address)) };
    let gate = bed.gate();
    let ask = async |gate: &Arc<Gate>| {
        let (mut guest, host) = tokio::io::duplex(64 * 1024);
        let gate = Arc::clone(gate);
        tokio::spawn(async move { serve(host, &gate).await });
        let target = Some(egress_request::Target::Name("git.example.com".into()));
        frame::write(&mut guest, &wire::EgressRequest { target, port: 22, execution: 7 }).await.unwrap();
        guest
    };
    let mut guest = ask(&gate).await;
    assert!(matches!(verdict(&mut guest).await, Verdict::Accepted(_)));
    let mut got = Vec::new();
    let _ = guest.read_to_end(&mut got).await;
    assert_eq!(got.len(), 100_000, "to the byte");
    let cut = gate.journal().end(7);
    assert_eq!((cut.connections, cut.denied), (1, 1));
    assert_eq!(cut.denials[0].reason, DenialReason::BudgetSpent);
    sending.await.unwrap();
    // Nothing more gets through.
    let mut guest = ask(&gate).await;
    let Verdict::Denied(told) = verdict(&mut guest).await else { panic!("a spent budget let it through") };
    assert_eq!(told.reason, "budget_spent");
}

#[tokio::test]
async fn a_change_of_policy_ends_what_the_new_one_does_not_allow_and_leaves_the_rest() {
    let (listener, address) = listen().await;
    let bed = bed(Some(address));
    let gate = bed.gate();
    let (mut guest, host) = tokio::io::duplex(64 * 1024);
    let serving = Arc::clone(&gate);
    let served = tokio::spawn(async move { serve(host, &serving).await });
    let target = Some(egress_request::Target::Name("git.example.com".into()));
    frame::write(&mut guest, &wire::EgressRequest { target, port: 22, execution: 7 }).await.unwrap();
    let (mut server, _) = listener.accept().await.unwrap();
    assert!(matches!(verdict(&mut guest).await, Verdict::Accepted(_)));
    // One that allows it too changes nothing.
    gate.set_policy(Arc::new(full(Budget::default())));
    server.write_all(b"still").await.unwrap();
    let mut heard = [0; 5];
    guest.read_exact(&mut heard).await.unwrap();
    gate.set_policy(Arc::new(Policy::none()));
    served.await.unwrap();
    assert_eq!(guest.read(&mut heard).await.unwrap(), 0);
    assert_eq!(server.read(&mut heard).await.unwrap_or(0), 0);
    let summary = gate.journal().end(7);
    assert_eq!(summary.denials[0].reason, DenialReason::PolicyChanged);
    assert_eq!((summary.connections, summary.denied, summary.down), (1, 1, 5));
}

#[tokio::test]
async fn a_policy_that_changes_before_the_client_has_spoken_counts() {
    let (listener, address) = listen().await;
    let bed = bed(Some(address));
    let gate = bed.gate();
    let (mut guest, host) = tokio::io::duplex(64 * 1024);
    let serving = Arc::clone(&gate);
    let served = tokio::spawn(async move { serve(host, &serving).await });
    let target = Some(egress_request::Target::Name("pypi.org".into()));
    frame::write(&mut guest, &wire::EgressRequest { target, port: 443, execution: 7 }).await.unwrap();
    // A part of the handshake: it was decided about, and waits for the rest.
    let said = hello(Some("pypi.org"));
    guest.write_all(&said[..10]).await.unwrap();
    while gate.open.load(Ordering::SeqCst) == 0 {
        tokio::task::yield_now().await;
    }
    gate.set_policy(Arc::new(Policy::none()));
    guest.write_all(&said[10..]).await.unwrap();
    let Verdict::Denied(told) = verdict(&mut guest).await else { panic!("the old policy let it through") };
    assert_eq!((told.reason.as_str(), &told.reply[..]), ("policy_changed", &ACCESS_DENIED[..]));
    served.await.unwrap();
    let nobody =
        tokio::select! { biased; _ = listener.accept() => false, () = std::future::ready(()) => true };
    assert!(nobody, "it was dialled");
}
