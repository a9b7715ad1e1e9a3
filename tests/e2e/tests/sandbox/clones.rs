//! Many machines from one snapshot: each is its own, none costs much, and the snapshot stays what it was.

use std::collections::BTreeSet;
use std::fs;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use futures::future::join_all;
use rekindle::agent::ExecuteRequest;
use rekindle::vm::{Identity, Vm};
use rekindle_e2e::guest::{node, output, python, shell};

/// How far a clone's clock may be from its host's.
const CLOCK_MILLIS: i128 = 100;
/// Clones whose clocks are looked at.
const CLOCKS: usize = 5;
/// Memory an idle clone may have for itself.
const PRIVATE_KIB: u64 = 32 * 1024;

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_crowd_of_clones_at_once_answers_apart_from_each_other_and_leave_the_snapshot_as_it_was() {
    let lab = lab!();
    let _alone = lab.alone().await;
    lab.snapshot.verify().expect("whole before");
    let clones: Vec<Vm> = join_all((0..lab.crowd()).map(|_| lab.clone())).await;

    let private: Vec<u64> = clones.iter().map(|vm| private_kib(lab.monitor(vm))).collect();
    eprintln!("private memory of {} idle clones in KiB: {private:?}", clones.len());

    let write = |(number, vm)| async move {
        output(vm, shell(&format!("echo {number} | tee mine-{number} > /tmp/shared; sync"))).await
    };
    join_all(clones.iter().enumerate().map(write)).await;
    let seen = join_all(clones.iter().map(|vm| output(vm, shell("ls; cat /tmp/shared; ls /tmp")))).await;
    for (number, seen) in seen.iter().enumerate() {
        assert_eq!(*seen, format!("mine-{number}\n{number}\nshared"), "clone {number}");
    }
    join_all(clones.into_iter().map(Vm::stop)).await;
    lab.snapshot.verify().expect("whole after");
    let most = private.iter().max().expect("clones");
    assert!(*most <= PRIVATE_KIB, "an idle clone has {most} KiB for itself: {private:?}");
}

/// Memory that would be free again without this process.
fn private_kib(pid: u32) -> u64 {
    let rollup = fs::read_to_string(format!("/proc/{pid}/smaps_rollup")).expect("readable");
    let field = |name: &str| {
        let line = rollup.lines().find(|line| line.starts_with(name)).expect("a field");
        line.split_ascii_whitespace().nth(1).and_then(|number| number.parse::<u64>().ok()).expect("a number")
    };
    field("Private_Dirty:") + field("Private_Clean:")
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn clones_differ_in_everything_random_and_in_their_names() {
    let lab = lab!();
    let _alone = lab.alone().await;
    const PYTHON: &str = "import os, random, socket, uuid\n\
        print(os.urandom(16).hex(), uuid.uuid4(), random.random(), socket.gethostname(), \
        open('/etc/machine-id').read().strip(), open('/proc/sys/kernel/random/uuid').read().strip())";
    const NODE: &str = "console.log(Math.random(), require('crypto').randomUUID(), \
        require('crypto').randomBytes(16).toString('hex'))";
    let clones: Vec<Vm> = join_all((0..3).map(|_| lab.clone())).await;
    let draw = |vm| async move { [output(vm, python(PYTHON)).await, output(vm, node(NODE)).await].join(" ") };
    let drawn = join_all(clones.iter().map(draw)).await;
    let drawn: Vec<Vec<&str>> = drawn.iter().map(|text| text.split(' ').collect()).collect();
    let kinds = [
        "os.urandom",
        "uuid4",
        "random.random",
        "hostname",
        "machine-id",
        "the kernel's uuid",
        "Math.random",
        "crypto.randomUUID",
        "crypto.randomBytes",
    ];
    for (index, kind) in kinds.iter().enumerate() {
        let values: BTreeSet<&str> = drawn.iter().map(|values| values[index]).collect();
        assert_eq!(values.len(), clones.len(), "{kind}: {values:?}");
        assert!(values.iter().all(|value| value.len() > 4), "{kind}: {values:?}");
    }
    join_all(clones.into_iter().map(Vm::stop)).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_clock_of_a_clone_is_the_clock_of_its_host() {
    let lab = lab!();
    let _alone = lab.alone().await;
    let now = || SystemTime::now().duration_since(UNIX_EPOCH).expect("after 1970").as_nanos() as i128;
    let mut offsets = Vec::new();
    // The time a busy host takes to deliver its word is no property of the clock: the best of a few counts.
    for _ in 0..CLOCKS {
        let vm = lab.clone().await;
        let before = now();
        let pong = vm.agent().ping(Duration::from_secs(60)).await.expect("answers");
        // The guest looked at its clock somewhere between these two moments.
        let (guest, after) = (i128::from(pong.unix_nanos), now());
        offsets.push((guest - guest.clamp(before, after)) / 1_000_000);
        vm.stop().await;
    }
    eprintln!("clones' clocks are off by {offsets:?} ms");
    let least = offsets.iter().map(|offset| offset.abs()).min().expect("measured");
    assert!(least <= CLOCK_MILLIS, "{offsets:?}");
    // A template's clock is a day behind; no clone's is.
    assert!(offsets.iter().all(|offset| offset.abs() < 60_000), "{offsets:?}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_program_becomes_root_by_itself_only_where_that_is_allowed() {
    let lab = lab!();
    let _turn = lab.turn().await;
    for (allowed, user) in [(true, "0"), (false, "1000")] {
        let identity = Identity { root: allowed, ..Identity::default() };
        let vm = lab.clone_with(&lab.source.plan(), &identity).await;
        let make = "cp /usr/bin/id /usr/local/bin/who && chmod 4755 /usr/local/bin/who && id -u";
        let as_root = ExecuteRequest { user: "root".into(), ..shell(make) };
        assert_eq!(output(&vm, as_root).await, "0", "root is root");
        assert_eq!(output(&vm, shell("who -u")).await, user, "allowed: {allowed}");
        vm.stop().await;
    }
}
