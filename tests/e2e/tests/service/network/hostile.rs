//! Programs that try to reach something else than they say, or to go around: denied by the rule, and no server hears of
//! them.

use rekindle_e2e::authority::Authority;
use rekindle_e2e::site::Site;

use super::gate::Gate;

const RULES: &str =
    "allow = [{ host = \"plain.example.com\", protocol = \"http\" }, { host = \"secure.example.com\" }]";

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_address_another_host_or_a_tunnel_does_not_get_a_request_out() {
    let lab = lab!();
    let _turn = lab.turn().await;
    let site = Site::plain().await;
    site.put("/", "text/plain", "hello");
    let gate = Gate::open(lab, "minimal", RULES, &[("plain.example.com", site.address())]).await;
    let sandbox = gate.sandbox("test").await;
    let source = r#"
print(ask("plain.example.com"))
print(ask("denied.example.net"))
print(ask("plain.example.com", port=81))
# An address, whoever is named with it: metadata, a private network, IPv6, mapped, and one that stands for no name.
for address in ["169.254.169.254", "10.0.0.1", "2606:4700::1111", "::ffff:169.254.169.254", "198.18.200.200"]:
    print(ask(address, "plain.example.com"))
# A resolver of its own says the same: the address of an allowed name, and another host named to it.
allowed = socket.gethostbyname("plain.example.com")
print(ask(allowed, "denied.example.net"))
print(ask("plain.example.com", "plain.example.com:443", method="CONNECT"))
# The second request of a connection is held to the name as the first is.
kept = http.client.HTTPConnection("plain.example.com", timeout=200)
print(ask("plain.example.com", connection=kept))
print(ask("plain.example.com", "denied.example.net", connection=kept))
"#;
    let expected = [
        "200 hello",
        "403 not_allowed",
        "403 port",
        "403 address_literal",
        "403 address_literal",
        "403 address_literal",
        "403 address_literal",
        "403 address_literal",
        "403 host_mismatch",
        "403 tunnel",
        "200 hello",
        "403 host_mismatch",
    ];
    assert_eq!(gate.python(&sandbox, source).await, expected);
    assert_eq!(site.heard(), ["GET plain.example.com /"; 2]);
    assert_eq!(site.connections(), 2);
    gate.close().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_handshake_that_names_another_server_or_none_is_denied() {
    let lab = lab!();
    let _turn = lab.turn().await;
    let authority = Authority::new();
    let site = Site::secure(authority.server(&["secure.example.com"])).await;
    let gate = Gate::open(lab, "minimal", RULES, &[("secure.example.com", site.address())]).await;
    let sandbox = gate.sandbox("test").await;
    let source = r#"
print(shake("secure.example.com", "secure.example.com"))
for address, name in [
    ("secure.example.com", "denied.example.net"),
    ("secure.example.com", None),
    ("denied.example.net", "secure.example.com"),
    ("169.254.169.254", "secure.example.com"),
    ("plain.example.com", "plain.example.com"),
]:
    print(shake(address, name))
# What is no handshake is not let through either.
print(ask("secure.example.com", port=443))
"#;
    let mut expected = vec!["shaken"];
    expected.extend(["TLSV1_ALERT_ACCESS_DENIED"; 5]);
    expected.push("403 not_tls");
    assert_eq!(gate.python(&sandbox, source).await, expected);
    assert_eq!(site.connections(), 1);
    gate.close().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_is_not_tcp_is_refused_and_localhost_is_the_guests_own() {
    let lab = lab!();
    let _turn = lab.turn().await;
    let site = Site::plain().await;
    let gate = Gate::open(lab, "minimal", RULES, &[("plain.example.com", site.address())]).await;
    let sandbox = gate.sandbox("test").await;
    let source = format!(
        r#"
allowed = socket.gethostbyname("plain.example.com")
for family, address in [(socket.AF_INET, "1.1.1.1"), (socket.AF_INET, allowed), (socket.AF_INET6, "2606:4700::1111")]:
    try:
        print(socket.socket(family, socket.SOCK_DGRAM).sendto(b"x", (address, 443)))
    except OSError as error:
        print(type(error).__name__)
# The host's own loopback is another one.
try:
    print(socket.create_connection(("127.0.0.1", {}), timeout=200))
except OSError as error:
    print(type(error).__name__)
server = socket.create_server(("127.0.0.1", 0))
client = socket.create_connection(server.getsockname(), timeout=200)
server.accept()[0].sendall(b"local")
print(client.recv(5).decode())
"#,
        site.address().port()
    );
    let expected =
        ["PermissionError", "PermissionError", "PermissionError", "ConnectionRefusedError", "local"];
    assert_eq!(gate.python(&sandbox, &source).await, expected);
    assert_eq!(site.connections(), 0);
    gate.close().await;
}
