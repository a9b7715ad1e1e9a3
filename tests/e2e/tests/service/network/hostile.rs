//! Programs that try to reach something else than they say, or to go around: denied by the rule, and no server hears of
//! them.

use rekindle_e2e::authority::Authority;
use rekindle_e2e::site::Site;

use super::clients::{TEMPLATE, lab_with_clients};
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

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_client_that_is_sent_to_a_private_address_does_not_get_there() {
    let lab = lab_with_clients!();
    let _turn = lab.turn().await;
    let (site, secret) = (Site::plain().await, Site::plain().await);
    secret.put("/", "text/plain", "of the host");
    let policies = format!("test = {{ mode = \"allow\", {RULES} }}, open = {{ mode = \"full\" }}");
    let hosts = [("plain.example.com", site.address())];
    let gate = Gate::open_trusting(lab, TEMPLATE, &policies, &hosts, &Authority::new()).await;
    let (test, open) = (gate.sandbox("test").await, gate.sandbox("open").await);
    let elsewhere =
        ["169.254.169.254", "10.0.0.1", "[::ffff:169.254.169.254]", "2852039166", "0xa9.0xfe.0xa9.0xfe"];
    for (number, address) in elsewhere.iter().enumerate() {
        site.redirect(&format!("/{number}"), &format!("http://{address}/latest/meta-data/"));
        for (sandbox, reason) in [(&test, "address_literal"), (&open, "private_address")] {
            let line = format!(
                "curl -sS -L -w '%{{http_code}} %{{num_redirects}}' http://plain.example.com/{number}"
            );
            let ran = gate.shell(sandbox, &line, "").await;
            let denials: Vec<_> = ran.network.denials.iter().map(|denial| denial.reason.as_str()).collect();
            assert_eq!(denials, [reason], "{address}: {ran:?}");
            assert_eq!(
                (ran.network.connections, ran.network.denied, ran.network.failed),
                (2, 1, 0),
                "{ran:?}"
            );
            let printed = ran.printed();
            assert!(printed.ends_with("403 1") && printed.contains(reason), "{address}: {printed}");
        }
    }
    // The loopback that a program is sent to is the sandbox's own, where nobody listens.
    site.redirect("/home", &format!("http://{}/", secret.address()));
    for sandbox in [&test, &open] {
        let ran = gate.shell(sandbox, "curl -sS -L http://plain.example.com/home", "").await;
        ran.assert_told(7, "connect");
    }
    assert_eq!(secret.connections(), 0);
    let asked = 2 * (elsewhere.len() + 1);
    assert_eq!((site.connections(), site.heard().len()), (asked, asked));
    gate.close().await;
}
