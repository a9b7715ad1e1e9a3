//! Whose a connection is: two executions at once with many connections each, and none is taken for the other's, neither by
//! who follows them nor in the audit.

use std::collections::{BTreeMap, BTreeSet};

use rekindle_api::v1::{Connection, ConnectionsRequest};
use rekindle_e2e::site::Site;
use rekindle_test_support::in_lab;
use serde_json::Value;

use super::gate::Gate;
use crate::calls::destroy;

/// Connections of each.
fn connections() -> usize {
    if in_lab() { 20 } else { 500 }
}

/// Connections of each at once. Two times so many are more than are served at a time.
const AT_ONCE: usize = 100;

/// Waits for the other execution, then connects so many times, many at once, and reads the answers.
fn crowd(name: &str, other: &str) -> String {
    format!(
        r#"
import asyncio, os, time
open("{name}", "w").close()
while not os.path.exists("{other}"): time.sleep(0.01)
address = socket.gethostbyname("{name}.example.com")
async def one(turns):
    async with turns:
        reader, writer = await asyncio.open_connection(address, 80)
        writer.write(b"GET / HTTP/1.1\r\nHost: {name}.example.com\r\nConnection: close\r\n\r\n")
        answer = await reader.read()
        writer.close()
        return answer.endswith(b"hello")
async def all():
    turns = asyncio.Semaphore({AT_ONCE})
    return sum(await asyncio.gather(*(one(turns) for _ in range({}))))
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
    let dir = tempfile::tempdir().expect("a directory");
    let audit = dir.path().join("audit.jsonl");
    let settings = [format!("telemetry.audit_log={}", audit.display())];
    let gate = Gate::open_with(lab, "minimal", &rules, &hosts, &settings).await;
    let sandbox = gate.sandbox("test").await;
    // More than a sandbox remembers: they are followed to its end.
    let request = ConnectionsRequest { sandbox: sandbox.id.clone(), follow: true };
    let mut stream = gate.client.network.clone().connections(request).await.expect("told").into_inner();
    let following = tokio::spawn(async move {
        let mut all: BTreeMap<u64, Connection> = BTreeMap::new();
        while let Some(connection) = stream.message().await.expect("no failure") {
            all.insert(connection.number, connection);
        }
        all
    });
    let (ones, twos) = (crowd("one", "two"), crowd("two", "one"));
    let (one, two) = tokio::join!(gate.ran_python(&sandbox, &ones), gate.ran_python(&sandbox, &twos));
    for ran in [one, two] {
        assert_eq!(ran.network.connections, connections() as u64, "{ran:?}");
        assert_eq!(ran.printed(), connections().to_string());
    }
    destroy(&gate.client, &sandbox.id).await;

    let mut counts: BTreeMap<(String, String), usize> = BTreeMap::new();
    for connection in following.await.expect("followed").into_values() {
        *counts.entry((connection.host, connection.execution)).or_default() += 1;
    }
    let told: Vec<_> = counts.into_iter().collect();
    let [((one, first), ones), ((two, second), twos)] = &told[..] else { panic!("{told:?}") };
    assert_eq!((one.as_str(), two.as_str()), ("one.example.com", "two.example.com"), "{told:?}");
    assert_eq!((*ones, *twos), (connections(), connections()), "{told:?}");
    assert!(!first.is_empty() && !second.is_empty() && first != second, "{told:?}");

    gate.close().await;
    // It has so many of a sandbox's each second, and the number of the others: together they are all of them. None of
    // them is swapped, and none has two lines.
    let text = std::fs::read_to_string(&audit).expect("an audit log");
    let lines = text.lines().map(|line| serde_json::from_str::<Value>(line).expect("JSON"));
    let lines: Vec<Value> = lines.filter(|line| line["sandbox"] == *sandbox.id).collect();
    let left_out = |line: &Value| {
        let counts = ["connection", "connections"].iter().any(|method| line["method"] == *method);
        line["left_out"].as_u64().filter(|_| counts).unwrap_or(0)
    };
    let left_out: u64 = lines.iter().map(left_out).sum();
    let lines: Vec<Value> = lines.into_iter().filter(|line| line["method"] == "connection").collect();
    let said = |line: &Value, key: &str| line[key].as_str().unwrap_or_default().to_owned();
    let pairs = lines.iter().map(|line| (said(line, "host"), said(line, "guest_says_execution")));
    let expected = told.iter().map(|(pair, _)| pair.clone()).collect::<BTreeSet<_>>();
    assert_eq!(pairs.collect::<BTreeSet<_>>(), expected);
    for name in [&one, &two] {
        let of_one = lines.iter().filter(|line| line["host"] == **name).count();
        assert!((1..=connections()).contains(&of_one), "{name} has {of_one} lines");
    }
    assert_eq!(lines.len() as u64 + left_out, 2 * connections() as u64, "{} and {left_out}", lines.len());
}
