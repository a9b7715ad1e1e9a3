//! Connections of programs, from the program through the kernel, the agent and the host to a server and back. The agent is
//! in a network namespace of its own; the host, and the servers that names are mapped to, are outside of it.

use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::sync::Arc;

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

/// A kernel that has no dummy devices may have others that lead nowhere.
const DEVICE: &str = "ip link add eth0 type dummy || ip link add eth0 type bridge || :";

fn setup() -> Setup {
    Setup { unshare: vec!["--net"], before: DEVICE, words: vec!["network=on"], ..Setup::default() }
}

/// A program in Python, which can look names up.
fn python(code: &str) -> rekindle::agent::ExecuteRequest {
    let code = format!("{LOOK_UP}\n{code}").replace('\'', "'\\''");
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
    tokio::spawn(Arc::clone(&gate).serve(agent.client.take_streams()));
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
