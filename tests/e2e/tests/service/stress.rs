//! Many sandboxes at once and many in a row: none fails, and nothing stays behind in the supervisor or around it.
//!
//! Sizes are for every day; `REKINDLE_STRESS=full` makes them 50 at once and 500 in a row.

use std::collections::BTreeSet;
use std::path::Path;
use std::time::{Duration, Instant};

use futures::future::join_all;
use rekindle_api::client::Client;
use rekindle_api::v1::SandboxStartKind;
use rekindle_e2e::leftovers;
use rekindle_e2e::server::{Held, Server};
use rekindle_test_support::wait::until;

use crate::calls::{create, destroy, output, python, shell};
use crate::held::{assert_same, settled};

/// One waits restored, one monitor waits: every kind of start happens.
const POOL: &str = "pool.templates={ minimal = { parked_low = 1, parked_high = 1, prespawned = 1 } }";
const PARKED: u32 = 1;
const PRESPAWNED: u32 = 1;
/// Room for all of them: memory is shared between clones, and only a little of it is each one's own.
const ROOM: [&str; 2] = ["pool.memory_budget_mib=65536", "pool.milli_cpus_budget=256000"];
/// Records of ended sandboxes are kept on purpose; fewer of them than the first round makes.
const RECORDS: &str = "sandbox.ended_kept=4";

fn full() -> bool {
    std::env::var("REKINDLE_STRESS").is_ok_and(|size| size == "full")
}

/// Creates, uses and destroys one. Says where its machine came from.
async fn whole_life(client: &Client, data: &Path, number: usize) -> (SandboxStartKind, BTreeSet<String>) {
    let sandbox = create(client).await;
    let machines = leftovers::machines(data);
    let say = format!("print('number', {number})");
    assert_eq!(output(client, &sandbox.id, python(&say)).await, format!("number {number}"));
    let words = format!("echo {number} > mine; cat mine");
    assert_eq!(output(client, &sandbox.id, shell(&words)).await, number.to_string());
    destroy(client, &sandbox.id).await;
    (sandbox.start.expect("how it started").kind(), machines)
}

fn report(what: &str, count: usize, took: Duration, kinds: &[SandboxStartKind], before: Held, after: Held) {
    let of = |kind| kinds.iter().filter(|other| **other == kind).count();
    eprintln!(
        "{count} sandboxes {what} in {:.1} s: {} parked, {} prespawned, {} restored",
        took.as_secs_f64(),
        of(SandboxStartKind::Parked),
        of(SandboxStartKind::Prespawned),
        of(SandboxStartKind::Restored),
    );
    eprintln!("  before {before:?}\n  after  {after:?}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn sandboxes_at_once_and_in_a_row_all_work_and_leave_nothing_in_the_supervisor_or_around_it() {
    let lab = lab!();
    let _alone = lab.alone().await;
    let data = lab.copy();
    let data = data.path();
    let (crowd, row) = match (full(), rekindle_test_support::in_lab()) {
        (true, _) => (50, 500),
        (false, false) => (16, 40),
        (false, true) => (lab.crowd(), 8),
    };
    let server = Server::start(data, &[POOL, ROOM[0], ROOM[1], RECORDS]).await;
    let mut machines = BTreeSet::new();
    // What is made once, on first use, is made here.
    {
        let client = server.client().await;
        for number in 0..4 {
            machines.extend(whole_life(&client, data, number).await.1);
        }
    }
    let before = settled(&server, PARKED, PRESPAWNED).await;

    let began = Instant::now();
    let kinds = {
        let client = server.client().await;
        let sandboxes = join_all((0..crowd).map(|_| create(&client))).await;
        machines.extend(leftovers::machines(data));
        assert!(machines.len() >= crowd, "they are all there at once: {}", machines.len());
        let say = |number: usize| python(&format!("print('number', {number})"));
        let said =
            join_all(sandboxes.iter().enumerate().map(|(number, one)| output(&client, &one.id, say(number))));
        for (number, said) in said.await.iter().enumerate() {
            assert_eq!(*said, format!("number {number}"));
        }
        join_all(sandboxes.iter().map(|one| destroy(&client, &one.id))).await;
        sandboxes.iter().map(|one| one.start.as_ref().expect("a start").kind()).collect::<Vec<_>>()
    };
    let took = began.elapsed();
    let after = settled(&server, PARKED, PRESPAWNED).await;
    report("at once", crowd, took, &kinds, before, after);
    assert_same(before, after);

    let began = Instant::now();
    let mut kinds = Vec::new();
    {
        let client = server.client().await;
        for number in 0..row {
            let (kind, seen) = whole_life(&client, data, number).await;
            kinds.push(kind);
            machines.extend(seen);
        }
    }
    let took = began.elapsed();
    let last = settled(&server, PARKED, PRESPAWNED).await;
    report("in a row", row, took, &kinds, before, last);
    assert_same(before, last);

    // Of all machines there ever were only those that wait are left, and then none.
    let waiting = usize::try_from(PARKED + PRESPAWNED).expect("few");
    until("machines stay", || leftovers::machines(data).len() == waiting).await;
    machines.extend(leftovers::machines(data));
    eprintln!("{} machines in all", machines.len());
    let gone: BTreeSet<String> = machines.difference(&leftovers::machines(data)).cloned().collect();
    let living = leftovers::supervisors(data);
    assert_eq!(leftovers::find(data, &gone, &living).cgroups, BTreeSet::new());
    server.stop(&machines).await;
}
