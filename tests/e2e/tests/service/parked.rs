//! Machines that wait ready: who gets one gets it quickly, and gets one that is like no other.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::PathBuf;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use rekindle_api::v1::{CreateSandboxRequest, SandboxStart, SandboxStartKind};
use rekindle_e2e::leftovers;
use rekindle_e2e::server::Server;

use crate::calls::{create, create_with, destroy, output, python, time};

/// Two wait, and as soon as one is gone it is replaced.
const TWO_PARKED: &str = "pool.templates={ minimal = { parked_low = 2, parked_high = 2, prespawned = 0 } }";
/// How long the machines are left waiting, so that a clock which stood still shows.
const WAITED: Duration = Duration::from_secs(3);
/// How far a sandbox's clock may be from its host's, beyond the time the question took.
const CLOCK: Duration = Duration::from_secs(1);

/// What must differ between two sandboxes, and the clock.
const DRAW: &str = "import os, random, socket, time, uuid\n\
    print(time.time(), os.urandom(16).hex(), uuid.uuid4(), random.random(), socket.gethostname(), \
    open('/etc/machine-id').read().strip(), open('/proc/sys/kernel/random/uuid').read().strip())";

fn now() -> f64 {
    SystemTime::now().duration_since(UNIX_EPOCH).expect("after 1970").as_secs_f64()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn parked_machines_are_claimed_and_replaced_and_share_neither_randomness_nor_names_nor_a_stale_clock() {
    let lab = lab!();
    let _turn = lab.turn().await;
    let data = lab.copy();
    let server = Server::start(data.path(), &[TWO_PARKED]).await;
    let client = server.client().await;
    assert_eq!(server.filled(2, 0).await.claims_parked, 0);
    tokio::time::sleep(WAITED).await;

    let (one, other) = tokio::join!(create(&client), create(&client));
    let mut machines = leftovers::machines(data.path());
    let mut drawn = Vec::new();
    for sandbox in [&one, &other] {
        let start = sandbox.start.as_ref().expect("how it started");
        assert_eq!(start.kind(), SandboxStartKind::Parked, "{start:?}");
        assert!(!start.stages.is_empty() && start.total.is_some_and(|total| total.nanos > 0), "{start:?}");
        let before = now();
        let text = output(&client, &sandbox.id, python(DRAW)).await;
        let after = now();
        let values: Vec<String> = text.split(' ').map(str::to_owned).collect();
        let clock: f64 = values[0].parse().expect("a time");
        let off = (clock - clock.clamp(before, after)).abs();
        eprintln!("the clock of a parked machine is off by {:.0} ms", off * 1000.0);
        assert!(off < CLOCK.as_secs_f64(), "{clock} is not between {before} and {after}");
        drawn.push(values);
    }
    let kinds = ["os.urandom", "uuid4", "random.random", "hostname", "machine-id", "the kernel's uuid"];
    for (index, kind) in kinds.iter().enumerate() {
        let values: BTreeSet<&String> = drawn.iter().map(|values| &values[index + 1]).collect();
        assert_eq!(values.len(), 2, "{kind}: {values:?}");
        assert!(values.iter().all(|value| value.len() > 4), "{kind}: {values:?}");
    }

    let level = server.filled(2, 0).await;
    assert_eq!((level.claims_parked, level.claims_restored), (2, 0), "{level:?}");
    machines.extend(leftovers::machines(data.path()));
    assert_eq!(machines.len(), 4, "two claimed, two new: no machine is used twice");
    tokio::join!(destroy(&client, &one.id), destroy(&client, &other.id));
    server.stop(&machines).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn on_a_busy_host_machines_in_use_go_before_those_that_wait() {
    let lab = lab!();
    let _turn = lab.turn().await;
    let data = lab.copy();
    let server = Server::start(data.path(), &[TWO_PARKED]).await;
    let client = server.client().await;
    server.filled(2, 0).await;
    let waiting = leftovers::machines(data.path());
    let before = shares(&waiting);
    if before.is_empty() {
        server.stop(&waiting).await;
        rekindle_test_support::skip!("the control groups of this host do not share its processors");
    }
    assert_eq!(before.values().collect::<Vec<_>>(), [&20, &20]);
    create(&client).await;
    server.filled(2, 0).await;
    let after = shares(&leftovers::machines(data.path()));
    let mut values: Vec<u64> = after.values().copied().collect();
    values.sort_unstable();
    assert_eq!(values, [20, 20, 100], "one is in use, the other two wait: {after:?}");
    let claimed = after.iter().find(|(_, share)| **share == 100).map(|(name, _)| name);
    assert!(claimed.is_some_and(|name| waiting.contains(name)), "it had waited before: {after:?}");
    server.stop(&leftovers::machines(data.path())).await;
}

/// What machines get of processors that are all busy, as a percentage of what a group gets that says nothing.
fn shares(machines: &BTreeSet<String>) -> BTreeMap<String, u64> {
    let number = |path: PathBuf| fs::read_to_string(path).ok()?.trim().parse::<u64>().ok();
    let share = |dir: &PathBuf| {
        let old = || number(dir.join("cpu.shares")).map(|shares| (shares * 100).div_ceil(1024));
        number(dir.join("cpu.weight")).or_else(old)
    };
    let name = |dir: &PathBuf| dir.file_name().unwrap_or_default().to_string_lossy().into_owned();
    leftovers::cgroups(machines).iter().filter_map(|dir| Some((name(dir), share(dir)?))).collect()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn wishes_reach_a_sandbox_that_was_parked_before_they_were_known() {
    let lab = lab!();
    let _turn = lab.turn().await;
    let data = lab.copy();
    let server = Server::start(data.path(), &[TWO_PARKED]).await;
    let client = server.client().await;
    server.filled(2, 0).await;
    let wishes = CreateSandboxRequest {
        env: [("GREETING".to_owned(), "hello world".to_owned())].into(),
        metadata: [("job".to_owned(), "7".to_owned())].into(),
        ttl: time(Duration::from_millis(600_000)),
        ..CreateSandboxRequest::default()
    };
    let sandbox = create_with(&client, wishes).await;
    assert_eq!(sandbox.start.as_ref().map(SandboxStart::kind), Some(SandboxStartKind::Parked));
    assert_eq!(sandbox.metadata.get("job").map(String::as_str), Some("7"));
    let printed = output(&client, &sandbox.id, python("import os; print(os.environ['GREETING'])")).await;
    assert_eq!(printed, "hello world");
    server.stop(&leftovers::machines(data.path())).await;
}
