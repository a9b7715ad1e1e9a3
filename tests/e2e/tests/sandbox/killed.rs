//! `rekindle` killed with SIGKILL at every stage: the next command finds what it left and removes all of it.

use std::collections::BTreeSet;
use std::path::Path;
use std::time::Instant;

use rekindle_e2e::cli::{command, rekindle, started};
use rekindle_e2e::leftovers;
use rekindle_test_support::wait::{PATIENCE, until};
use tokio::io::AsyncReadExt as _;
use tokio::process::Child;

/// A command that looks for what others left and needs no machine of its own.
const NEXT: &[&str] = &["template", "rm", "--unused"];
/// Kills a command and proves that after the next one nothing is left. Returns how many machines it had.
async fn kill_and_look(data: &Path, mut child: Child) -> usize {
    child.kill().await.expect("killed");
    let machines = leftovers::machines(data);
    let next = rekindle(data, NEXT).await;
    assert_eq!(next.code, Some(0), "{next:?}");
    leftovers::find(data, &machines, &BTreeSet::new()).assert_none();
    machines.len()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_build_killed_at_any_stage_leaves_nothing_behind() {
    let lab = lab!();
    let _turn = lab.turn().await;
    let data = lab.empty_data();
    let data = data.path();
    let build = || started(&mut command(data, &["template", "build", "minimal"]));
    let staged = || data.join("staging").read_dir().is_ok_and(|mut entries| entries.next().is_some());

    let child = build();
    until("a staging directory", staged).await;
    kill_and_look(data, child).await;

    let child = build();
    until("a monitor", || !leftovers::monitors(data).is_empty()).await;
    assert_eq!(kill_and_look(data, child).await, 1);

    // Well into the warm-up.
    let mut child = build();
    let mut said = String::new();
    let mut stderr = child.stderr.take().expect("a pipe");
    let mut piece = [0; 512];
    while !said.contains("warming up, step 2") {
        let read = tokio::time::timeout(PATIENCE, stderr.read(&mut piece)).await.expect("in time");
        let read = read.expect("readable");
        assert_ne!(read, 0, "the build ended: {said}");
        said.push_str(&String::from_utf8_lossy(&piece[..read]));
    }
    assert_eq!(kill_and_look(data, child).await, 1);
    let listed = rekindle(data, &["template", "ls", "--json"]).await.json();
    assert_eq!(listed["snapshots"].as_array().map(Vec::len), Some(0), "no half snapshot: {listed}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_run_killed_at_any_moment_of_its_restore_leaves_nothing_behind() {
    let lab = lab!();
    let _turn = lab.turn().await;
    let data = lab.copy();
    let data = data.path();
    // The first use checks every byte of the copy; from then on a start is quick.
    let run = ["run", "--template", "minimal", "--sh", "sleep 100"];
    let began = Instant::now();
    let child = started(&mut command(data, &run));
    until("a monitor", || !leftovers::monitors(data).is_empty()).await;
    eprintln!("first monitor after {:?}", began.elapsed());
    assert_eq!(kill_and_look(data, child).await, 1);

    let began = Instant::now();
    let child = started(&mut command(data, &run));
    until("a monitor", || !leftovers::monitors(data).is_empty()).await;
    // A record is written once the monitor runs, so this is most of a start.
    let whole = began.elapsed();
    assert_eq!(kill_and_look(data, child).await, 1);

    let mut caught = 0;
    for step in 1..=12 {
        let child = started(&mut command(data, &run));
        tokio::time::sleep(whole * step / 8).await;
        caught += kill_and_look(data, child).await;
    }
    assert!(caught > 0, "some of the kills hit a start");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_run_killed_while_its_program_works_leaves_nothing_behind() {
    let lab = lab!();
    let _turn = lab.turn().await;
    let data = lab.copy();
    let data = data.path();
    let words = ["run", "--template", "minimal", "--stream", "--sh", "echo working; sleep 100"];
    let mut child = started(&mut command(data, &words));
    let mut said = [0; 7];
    let mut stdout = child.stdout.take().expect("a pipe");
    tokio::time::timeout(PATIENCE, stdout.read_exact(&mut said))
        .await
        .expect("in time")
        .expect("some output");
    assert_eq!(&said, b"working");
    let monitors = leftovers::monitors(data);
    assert_eq!(monitors.len(), 1);
    assert_eq!(kill_and_look(data, child).await, 1);
}
