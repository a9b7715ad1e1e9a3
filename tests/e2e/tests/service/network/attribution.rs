//! Whose a connection is: two executions at once with many connections each, and none is taken for the other's.

use std::collections::BTreeMap;

use rekindle_api::v1::ConnectionsRequest;
use rekindle_e2e::site::Site;
use rekindle_test_support::in_lab;

use super::gate::Gate;

/// Connections of each, all at once. Two times so many are more than are served at a time.
fn connections() -> usize {
    if in_lab() { 20 } else { 100 }
}

/// Waits for the other execution, then connects so many times at once and reads the answers.
fn crowd(name: &str, other: &str) -> String {
    format!(
        r#"
import asyncio, os, time
open("{name}", "w").close()
while not os.path.exists("{other}"): time.sleep(0.01)
address = socket.gethostbyname("{name}.example.com")
async def one():
    reader, writer = await asyncio.open_connection(address, 80)
    writer.write(b"GET / HTTP/1.1\r\nHost: {name}.example.com\r\nConnection: close\r\n\r\n")
    answer = await reader.read()
    writer.close()
    return answer.endswith(b"hello")
async def all(): return sum(await asyncio.gather(*(one() for _ in range({}))))
print(asyncio.run(all()))
"#,
        connections()
    )
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn connections_of_two_executions_at_once_are_never_taken_for_each_others() {
    let lab = lab!();
    let _turn = lab.turn().await;
    let site = Site::plain().await;
    site.put("/", "text/plain", "hello");
    let rule = |name: &str| format!("{{ host = \"{name}.example.com\", protocol = \"http\" }}");
    let rules = format!("allow = [{}, {}]", rule("one"), rule("two"));
    let hosts = [("one.example.com", site.address()), ("two.example.com", site.address())];
    let gate = Gate::open(lab, "minimal", &rules, &hosts).await;
    let sandbox = gate.sandbox("test").await;
    let (ones, twos) = (crowd("one", "two"), crowd("two", "one"));
    let (one, two) = tokio::join!(gate.python(&sandbox, &ones), gate.python(&sandbox, &twos));
    let all = connections().to_string();
    assert_eq!((&one[..], &two[..]), (&[all.clone()][..], &[all][..]));

    // Each has ended: its program has read the answer to its end.
    let request = ConnectionsRequest { sandbox: sandbox.id.clone(), follow: false };
    let mut stream = gate.client.network.clone().connections(request).await.expect("told").into_inner();
    let mut counts: BTreeMap<(String, String), usize> = BTreeMap::new();
    while let Some(connection) = stream.message().await.expect("no failure") {
        *counts.entry((connection.host, connection.execution)).or_default() += 1;
    }
    let told: Vec<_> = counts.into_iter().collect();
    let [((one, first), ones), ((two, second), twos)] = &told[..] else { panic!("{told:?}") };
    assert_eq!((one.as_str(), two.as_str()), ("one.example.com", "two.example.com"), "{told:?}");
    assert_eq!((*ones, *twos), (connections(), connections()), "{told:?}");
    assert!(!first.is_empty() && !second.is_empty() && first != second, "{told:?}");
    gate.close().await;
}
