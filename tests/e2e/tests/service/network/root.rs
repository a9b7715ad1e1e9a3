//! The guest's root, who may change everything inside: names that lead elsewhere, rules that are gone. None of it opens
//! anything, because nothing inside decides.

use rekindle_e2e::Lab;
use rekindle_e2e::site::Site;

use super::gate::Gate;

/// A server whose policy allows one name, which leads to this site.
async fn open(lab: &Lab, site: &Site) -> Gate {
    let rules = "allow = [{ host = \"plain.example.com\", protocol = \"http\" }]";
    Gate::open(lab, "minimal", rules, &[("plain.example.com", site.address())]).await
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_allowed_name_that_root_leads_to_metadata_or_home_does_not_lead_there() {
    let lab = lab!();
    let _turn = lab.turn().await;
    let site = Site::plain().await;
    site.put("/", "text/plain", "hello");
    let gate = open(lab, &site).await;
    let sandbox = gate.sandbox("test").await;
    let source = r#"
allowed = socket.gethostbyname("plain.example.com")
with open("/etc/hosts", "a") as hosts:
    hosts.write(f"169.254.169.254 plain.example.com\n{allowed} denied.example.net\n")
# The name leads to an address that no rule has; another name leads where an allowed one does.
print(socket.gethostbyname("plain.example.com"), ask("plain.example.com"))
print(socket.gethostbyname("denied.example.net") == allowed, ask("denied.example.net"))
print(ask(allowed, "plain.example.com"))
"#;
    let expected = ["169.254.169.254 403 address_literal", "True 403 host_mismatch", "200 hello"];
    assert_eq!(gate.python_as_root(&sandbox, source).await, expected);
    assert_eq!(site.heard(), ["GET plain.example.com /"]);
    gate.close().await;
}

/// Removes the table of rules, in the kernel's own words: images have no `nft`.
const FLUSH: &str = r#"
import struct
def message(kind, flags, body): return struct.pack("=IHHII", 16 + len(body), kind, flags, 1, 0) + body
name = struct.pack("=HH", 13, 1) + b"rekindle\0\0\0\0"
begin, delete, end = 0x10, 10 << 8 | 2, 0x11
netlink = socket.socket(socket.AF_NETLINK, socket.SOCK_RAW, 12)
batch = message(begin, 1, bytes([0, 0, 0, 10])) + message(delete, 5, bytes([1, 0, 0, 0]) + name)
netlink.send(batch + message(end, 1, bytes([0, 0, 0, 10])))
print("flushed", struct.unpack("=i", netlink.recv(4096)[16:20])[0])
"#;

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn root_that_removes_every_rule_has_no_network_left() {
    let lab = lab!();
    let _turn = lab.turn().await;
    let site = Site::plain().await;
    site.put("/", "text/plain", "hello");
    let gate = open(lab, &site).await;
    let sandbox = gate.sandbox("test").await;
    let source = format!(
        r#"
allowed = socket.gethostbyname("plain.example.com")
print(ask(allowed, "plain.example.com"))
{FLUSH}
# Nobody is there: neither the server under its name's address, nor anybody else.
for address in [allowed, "169.254.169.254", "1.1.1.1"]:
    try:
        print(socket.create_connection((address, 80), timeout=5))
    except OSError as error:
        print(type(error).__name__)
# Who goes to the agent by itself has no destination.
agent = socket.create_connection(("127.0.0.1", 1015), timeout=200)
try:
    agent.sendall(b"GET / HTTP/1.1\r\nHost: plain.example.com\r\n\r\n")
    print(agent.recv(1) or "cut")
except ConnectionError:
    print("cut")
"#
    );
    let printed = gate.python_as_root(&sandbox, &source).await;
    let expected = ["200 hello", "flushed 0", "TimeoutError", "TimeoutError", "TimeoutError", "cut"];
    assert_eq!(printed, expected);
    assert_eq!(site.connections(), 1);
    assert_eq!(gate.shell(&sandbox, "id -un", "").await.printed(), "user", "it goes on");
    gate.close().await;
}
