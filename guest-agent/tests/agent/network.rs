//! Connections of programs, from the program through the kernel, the agent and the host to a server and back. The agent is
//! in a network namespace of its own; the host, and the servers that names are mapped to, are outside of it.

use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};

use rekindle::network::{Access, Egress, Gate, PolicySpec, Protocol, RuleSpec};
use rekindle_protocol::frame;
use rekindle_protocol::wire::{EgressRequest, egress_request::Target};
use rekindle_test_support::skip;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpListener;
use tokio::task::JoinHandle;

use crate::agent;
use crate::harness::{Agent, SOON, Setup, shell};

/// Looks a name up at a server that nobody has, in Python's own words.
const LOOK_UP: &str = r#"
import socket, struct
def look_up(name, kind=1, server="8.8.8.8"):
    asked = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
    asked.settimeout(60)
    labels = b"".join(bytes([len(l)]) + l.encode() for l in name.split("."))
    asked.sendto(struct.pack(">6H", 7, 256, 1, 0, 0, 0) + labels + b"\0" + struct.pack(">2H", kind, 1), (server, 53))
    reply, sender = asked.recvfrom(512)
    assert sender == (server, 53), sender
    return socket.inet_ntoa(reply[-4:]) if struct.unpack(">H", reply[6:8])[0] else None
"#;

/// Asks for names over a connection to such a server.
const LOOK_UP_BY_TCP: &str = r#"
def asked(number, name, kind=1):
    labels = b"".join(bytes([len(l)]) + l.encode() for l in name.split("."))
    question = struct.pack(">6H", number, 256, 1, 0, 0, 0) + labels + b"\0" + struct.pack(">2H", kind, 1)
    return struct.pack(">H", len(question)) + question
def answered(connection):
    def take(length):
        taken = b""
        while len(taken) < length:
            piece = connection.recv(length - len(taken))
            if not piece: return None
            taken += piece
        return taken
    reply = take(*struct.unpack(">H", take(2)))
    address = socket.inet_ntoa(reply[-4:]) if struct.unpack(">H", reply[6:8])[0] else None
    return struct.unpack(">H", reply[:2])[0], address
"#;

/// A kernel that has no dummy devices may have others that lead nowhere. Programs may ping.
const DEVICE: &str = "ip link add eth0 type dummy || ip link add eth0 type bridge || :; \
    echo 0 2147483647 > /proc/sys/net/ipv4/ping_group_range || :";
/// Connections of a program that does not stop.
const FLOOD: usize = 10_000;
/// Connections of an agent at once.
const PLACES: usize = 128;

fn setup() -> Setup {
    Setup { unshare: vec!["--net"], before: DEVICE, words: vec!["network=on"], ..Setup::default() }
}

/// A program in Python, which can look names up.
fn python(code: &str) -> rekindle::agent::ExecuteRequest {
    let code = format!("{LOOK_UP}\n{LOOK_UP_BY_TCP}\n{code}").replace('\'', "'\\''");
    shell(&format!("python3 -c '{code}'"))
}

/// Whether the kernel has what it takes, and the machine the programs.
async fn can(agent: &Agent) -> Option<&'static str> {
    let routes = agent.shell("cat /proc/net/route").await;
    if !routes.lines().any(|line| line.starts_with("eth0\t00000000")) {
        return Some("this kernel has no device that leads nowhere");
    }
    if !agent.has("python3").await {
        return Some("there is no python3");
    }
    None
}

/// Serves a policy whose names lead to this server.
fn serve(agent: &Agent, server: SocketAddr) -> Arc<Gate> {
    let rule = |host: &str, port, protocol| RuleSpec {
        host: host.to_owned(),
        ports: vec![port],
        protocol,
        record: None,
    };
    let spec = PolicySpec {
        mode: Access::Allow,
        allow: vec![rule("plain.example.com", 80, Protocol::Http), rule("raw.example.com", 7, Protocol::Tcp)],
        ..PolicySpec::default()
    };
    let hosts: BTreeMap<String, SocketAddr> =
        ["plain.example.com", "raw.example.com"].map(|name| (name.to_owned(), server)).into();
    let egress = Egress::new(&[("test".to_owned(), spec)].into(), &hosts).expect("a network");
    let gate = Arc::new(egress.gate(egress.policy("test").expect("the policy"), None));
    tokio::spawn(Arc::clone(&gate).serve(agent.client.take_streams(), Arc::clone(agent.client.meter())));
    gate
}

#[tokio::test(flavor = "multi_thread")]
async fn a_program_reaches_an_allowed_server_by_its_name_and_no_other() {
    let agent = agent!(setup());
    if let Some(reason) = can(&agent).await {
        skip!("{reason}");
    }
    let listener = TcpListener::bind("127.0.0.1:0").await.expect("a server");
    let _egress = serve(&agent, listener.local_addr().expect("an address"));
    tokio::spawn(async move {
        while let Ok((mut client, _)) = listener.accept().await {
            tokio::spawn(async move {
                let mut heard = Vec::new();
                let mut piece = [0; 1024];
                while !heard.ends_with(b"\n") {
                    match client.read(&mut piece).await {
                        Ok(read) if read > 0 => heard.extend_from_slice(&piece[..read]),
                        _ => return,
                    }
                }
                let _ = client
                    .write_all(b"HTTP/1.1 200 OK\r\nConnection: close\r\nContent-Length: 5\r\n\r\nhello")
                    .await;
            });
        }
    });
    let code = r#"
def ask(name, host, port):
    connection = socket.create_connection((look_up(name), port), timeout=60)
    connection.sendall(f"GET / HTTP/1.1\r\nHost: {host}\r\n\r\n".encode())
    answer = b""
    while piece := connection.recv(4096): answer += piece
    return answer.decode()
assert ask("plain.example.com", "plain.example.com", 80).endswith("hello")
assert ask("raw.example.com", "anything", 7).endswith("hello")
for name, host, port, reason in [
    ("evil.example", "evil.example", 80, "not_allowed"),
    ("plain.example.com", "evil.example", 80, "host_mismatch"),
    ("plain.example.com", "plain.example.com", 81, "port"),
]:
    answer = ask(name, host, port)
    assert answer.startswith("HTTP/1.1 403 ") and reason in answer, answer
print("done")
"#;
    let finished = agent.run(python(code)).await;
    assert_eq!(finished.stdout.text, "done\n", "{finished:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn addresses_are_told_as_such_udp_is_refused_and_localhost_is_untouched() {
    let agent = agent!(setup());
    if let Some(reason) = can(&agent).await {
        skip!("{reason}");
    }
    let mut streams = agent.client.take_streams();
    let targets = tokio::spawn(async move {
        let mut targets = Vec::new();
        while targets.len() < 3 {
            let mut stream = streams.recv().await.expect("a stream");
            let request: EgressRequest = frame::read(&mut stream).await.expect("a frame").expect("a request");
            targets.push((request.target.expect("a target"), request.port));
        }
        targets
    });
    let code = r#"
for family, address in [
    (socket.AF_INET, ("169.254.169.254", 80)),
    (socket.AF_INET6, ("2606:4700::1111", 443)),
    (socket.AF_INET, (look_up("Pypi.ORG"), 8443)),
]:
    connection = socket.socket(family)
    connection.settimeout(60)
    try:
        # It may be reset before this returns.
        connection.connect(address)
        assert connection.recv(1) == b""
    except ConnectionResetError:
        pass
assert look_up("pypi.org", 28) is None and look_up("pypi.org", 16) is None
assert look_up("pypi.org") == look_up("pypi.org", server="1.1.1.1") != look_up("npmjs.org")
try:
    socket.socket(socket.AF_INET, socket.SOCK_DGRAM).sendto(b"x", ("1.1.1.1", 443))
    raise SystemExit("udp leaves")
except PermissionError:
    pass
server = socket.create_server(("127.0.0.1", 0))
client = socket.create_connection(server.getsockname(), timeout=60)
accepted, _ = server.accept()
accepted.sendall(b"local")
assert client.recv(5) == b"local"
print("done")
"#;
    let finished = agent.run(python(code)).await;
    assert_eq!(finished.stdout.text, "done\n", "{finished:?}");
    let targets = tokio::time::timeout(SOON, targets).await.expect("no hang").expect("no panic");
    assert_eq!(targets[0], (Target::Address(vec![169, 254, 169, 254].into()), 80));
    let v6: std::net::Ipv6Addr = "2606:4700::1111".parse().expect("an address");
    assert_eq!(targets[1], (Target::Address(v6.octets().to_vec().into()), 443));
    assert_eq!(targets[2], (Target::Name("pypi.org".to_owned()), 8443));
}

#[tokio::test(flavor = "multi_thread")]
async fn names_are_answered_over_connections_too_and_the_host_hears_of_none() {
    let agent = agent!(setup());
    if let Some(reason) = can(&agent).await {
        skip!("{reason}");
    }
    let mut streams = agent.client.take_streams();
    let code = r#"
addresses = set()
for family, server in [(socket.AF_INET, "8.8.8.8"), (socket.AF_INET6, "2001:4860:4860::8888"), (socket.AF_INET, look_up("dns.example"))]:
    connection = socket.socket(family)
    connection.settimeout(60)
    connection.connect((server, 53))
    # One after the other, two at once, and one in pieces.
    connection.sendall(asked(1, "a.example.com"))
    addresses.add(answered(connection))
    connection.sendall(asked(2, "b.example.com") + asked(3, "A.Example.Com") + asked(4, "a.example.com", 16))
    told = [answered(connection) for _ in range(3)]
    assert [number for number, _ in told] == [2, 3, 4], told
    assert told[0][1] == look_up("b.example.com") and told[1][1] == look_up("a.example.com") and told[2][1] is None, told
    for byte in asked(5, "c.example.com"): connection.sendall(bytes([byte]))
    assert answered(connection) == (5, look_up("c.example.com"))
    connection.shutdown(socket.SHUT_WR)
    assert connection.recv(1) == b""
assert addresses == {(1, look_up("a.example.com"))}, addresses
# What is none, half of one, and one that would carry more than a question has.
whole = asked(6, "a.example.com")
for said in [b"\0\0", b"GET / HTTP/1.1\r\n\r\n", b"\xff\xff" + bytes(70000), b"\0\x0c" + bytes(12), whole[:1], whole[:20]]:
    connection = socket.create_connection(("8.8.8.8", 53), timeout=60)
    try:
        connection.sendall(said)
        connection.shutdown(socket.SHUT_WR)
        assert connection.recv(1) == b"", said
    except (ConnectionResetError, BrokenPipeError):
        pass
    except OSError as error:
        assert error.errno == 107, error
print("done")
"#;
    let finished = agent.run(python(code)).await;
    assert_eq!(finished.stdout.text, "done\n", "{finished:?}");
    assert!(streams.try_recv().is_err(), "the host was asked for a connection");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_ping_is_refused_at_once() {
    let agent = agent!(setup());
    if let Some(reason) = can(&agent).await {
        skip!("{reason}");
    }
    let code = r#"
for family, protocol, echo, to in [
    (socket.AF_INET, socket.IPPROTO_ICMP, 8, "1.1.1.1"),
    (socket.AF_INET, socket.IPPROTO_ICMP, 8, look_up("pypi.org")),
    (socket.AF_INET6, socket.IPPROTO_ICMPV6, 128, "2606:4700::1111"),
]:
    try:
        ping = socket.socket(family, socket.SOCK_DGRAM, protocol)
    except PermissionError:
        print("may not")
        raise SystemExit
    # The kernel tells of a packet of IPv6 that it did not send as if somebody on the way had refused it.
    ping.settimeout(60)
    try:
        ping.connect((to, 1))
        ping.send(struct.pack(">BBHHH", echo, 0, 0, 1, 1))
        raise SystemExit(f"{to} answers: {ping.recv(100)}")
    except PermissionError:
        pass
print("refused")
"#;
    let finished = agent.run(python(code)).await;
    if finished.stdout.text == "may not\n" {
        skip!("programs may not ping here at all");
    }
    assert_eq!(finished.stdout.text, "refused\n", "{finished:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_program_that_connects_without_end_has_its_places_and_another_one_has_its_turn() {
    let agent = agent!(setup());
    if let Some(reason) = can(&agent).await {
        skip!("{reason}");
    }
    let listener = TcpListener::bind("127.0.0.1:0").await.expect("a server");
    let gate = serve(&agent, listener.local_addr().expect("an address"));
    let (now, most) = (Arc::new(AtomicUsize::new(0)), Arc::new(AtomicUsize::new(0)));
    let seen = Arc::clone(&most);
    tokio::spawn(async move {
        while let Ok((mut client, _)) = listener.accept().await {
            seen.fetch_max(now.fetch_add(1, Relaxed) + 1, Relaxed);
            let now = Arc::clone(&now);
            tokio::spawn(async move {
                let (mut read, mut write) = client.split();
                let _ = tokio::io::copy(&mut read, &mut write).await;
                now.fetch_sub(1, Relaxed);
            });
        }
    });
    let flood = format!(
        r#"
address, held = look_up("raw.example.com"), []
for _ in range({FLOOD}):
    connection = socket.socket()
    connection.setblocking(False)
    try: connection.connect((address, 7))
    except BlockingIOError: pass
    held.append(connection)
    if len(held) > 300: held.pop(0).close()
print("flooded")
"#
    );
    let code = r#"
for number in range(20):
    connection = socket.create_connection((look_up("raw.example.com"), 7), timeout=60)
    connection.sendall(b"hello")
    assert connection.recv(5) == b"hello"
    connection.close()
print("served")
"#;
    let (flooded, served) = tokio::join!(agent.run(python(&flood)), agent.run(python(code)));
    assert_eq!(flooded.stdout.text, "flooded\n", "{flooded:?}");
    assert_eq!(served.stdout.text, "served\n", "{served:?}");
    // The host may not have seen the end of one whose place is already another's.
    let (most, connections) = (most.load(Relaxed), gate.summary().connections);
    assert!((1..=2 * PLACES).contains(&most), "{most} of {connections} were open at once");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_connection_belongs_to_the_execution_whose_program_made_it() {
    let agent = agent!(setup());
    if let Some(reason) = can(&agent).await {
        skip!("{reason}");
    }
    if !agent.kills_everything() {
        skip!("this machine has no cgroup v2 to tell executions apart");
    }
    let told = owners(&agent, 2);
    let connect = |port: u16| {
        python(&format!(
            "connection = socket.create_connection((look_up(\"a.example\"), {port}), timeout=60)\n\
             try: connection.recv(1)\nexcept ConnectionResetError: pass"
        ))
    };
    let run = async |port: u16, label: u64| {
        let request = rekindle::agent::ExecuteRequest { label, ..connect(port) };
        let mut execution = agent.client.execute(request).await.expect("started");
        while execution.next().await.expect("no failure").is_some() {}
    };
    tokio::join!(run(1001, 71), run(1002, 72));
    let told = tokio::time::timeout(SOON, told).await.expect("no hang").expect("no panic");
    assert_eq!(told, BTreeMap::from([(1001, 71), (1002, 72)]));
}

#[tokio::test(flavor = "multi_thread")]
async fn connections_from_one_port_to_several_servers_belong_to_their_execution_too() {
    let agent = agent!(setup());
    if let Some(reason) = can(&agent).await {
        skip!("{reason}");
    }
    if !agent.kills_everything() {
        skip!("this machine has no cgroup v2 to tell executions apart");
    }
    let told = owners(&agent, 8);
    let code = r#"
address, all = look_up("a.example"), []
for port in range(1001, 1009):
    connection = socket.socket()
    connection.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    connection.settimeout(60)
    connection.bind(("0.0.0.0", 40000))
    all.append(connection)
    # The last one may be reset before this returns.
    try: connection.connect((address, port))
    except ConnectionResetError: pass
for connection in all:
    try: connection.recv(1)
    except ConnectionResetError: pass
"#;
    let request = rekindle::agent::ExecuteRequest { label: 71, ..python(code) };
    let finished = agent.run(request).await;
    assert_eq!(finished.stderr.text, "", "{finished:?}");
    let told = tokio::time::timeout(SOON, told).await.expect("no hang").expect("no panic");
    assert_eq!(told, (1001..1009).map(|port| (port, 71)).collect());
}

/// The executions that own so many connections, by the ports that these go to. All of them stay open until then.
fn owners(agent: &Agent, count: usize) -> JoinHandle<BTreeMap<u32, u64>> {
    let mut streams = agent.client.take_streams();
    tokio::spawn(async move {
        let (mut told, mut open) = (BTreeMap::new(), Vec::new());
        while told.len() < count {
            let mut stream = streams.recv().await.expect("a stream");
            let request: EgressRequest = frame::read(&mut stream).await.expect("a frame").expect("a request");
            told.insert(request.port, request.execution);
            open.push(stream);
        }
        told
    })
}
