//! Monitors that die and starts that are given up, at every moment of every stage.

use std::collections::BTreeMap;
use std::env;
use std::fs;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

use rekindle::engine::{EngineError, Machine, Operation, SnapshotFiles};
use rekindle_test_support::wait::until;
use tokio::time::{sleep, timeout};

use super::super::bench::FIRST_USER;
use super::{Bench, Confinement, bench, end, monitor, monitor_of};

/// How many faults of each kind; `REKINDLE_FAULTS` asks for more.
const FAULTS: u32 = 16;

#[tokio::test]
async fn a_monitor_that_dies_at_any_stage_is_a_typed_error_and_leaves_nothing() {
    let bench = bench!();
    let before = leftovers();
    let files = bench.snapshot("template").await;

    // Prespawned for its snapshot.
    let prepared = bench.engine.prespawn(bench.restore_spec(&files)).await.expect("prepared");
    end(monitor_of(prepared.process().expect("a process")));
    let error = prepared.load().await.map(|_| ()).expect_err("it is gone");
    assert!(matches!(error, EngineError::Exited { operation: Operation::Load, .. }), "{error:?}");

    // While it loads.
    let prepared = bench.engine.prespawn(bench.restore_spec(&files)).await.expect("prepared");
    let pid = monitor_of(prepared.process().expect("a process"));
    let (loaded, ()) = tokio::join!(prepared.load(), async {
        sleep(Duration::from_millis(30)).await;
        end(pid);
    });
    match loaded {
        Err(EngineError::Exited { operation: Operation::Load, .. }) => {}
        // It was faster; then it ends right after.
        Ok(started) => assert!(!started.machine.wait().await.is_success()),
        Err(error) => panic!("{error:?}"),
    }

    // Running, and paused.
    for pause in [false, true] {
        let machine = bench.engine.restore(bench.restore_spec(&files)).await.expect("restored").machine;
        if pause {
            machine.pause().await.expect("paused");
        }
        end(monitor(&*machine));
        let error = machine.resume().await.expect_err("it is gone");
        assert!(matches!(error, EngineError::Exited { operation: Operation::Resume, .. }), "{error:?}");
        assert_eq!(machine.wait().await.to_string(), "was killed by SIGKILL");
    }

    // While it writes its snapshot.
    let dir = bench.dir.path().join("cut");
    fs::create_dir(&dir).expect("made");
    let machine = bench.engine.launch(bench.boot_spec(Some(&dir))).await.expect("launched").machine;
    bench.answers(&*machine).await.expect("it answers");
    let pid = monitor(&*machine);
    let (frozen, ()) = tokio::join!(machine.snapshot(), async {
        sleep(Duration::from_millis(20)).await;
        end(pid);
    });
    match frozen {
        Err(EngineError::Exited { operation: Operation::Snapshot, .. }) => {}
        Ok(_) => assert!(!machine.wait().await.is_success()),
        Err(error) => panic!("{error:?}"),
    }
    drop(machine);

    // Starts given up at every moment of theirs.
    let mut whole = Duration::MAX;
    for _ in 0..5 {
        let began = Instant::now();
        let machine = bench.engine.restore(bench.restore_spec(&files)).await.expect("restored").machine;
        whole = whole.min(began.elapsed());
        machine.kill().await;
    }
    let count = faults();
    let mut given_up = 0;
    for step in 0..count {
        let restoring = bench.engine.restore(bench.restore_spec(&files));
        given_up += u32::from(timeout(whole * step / count, restoring).await.is_err());
    }
    eprintln!("{given_up} of {count} starts were given up half-way, a whole one takes {whole:?}");
    assert!(given_up > count / 4, "{given_up} of {count}");

    nothing_but(&before).await;
}

/// What is done to a machine while its monitor is killed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Stage {
    Launch,
    Restore,
    Pause,
    Snapshot,
    Stop,
}

const STAGES: [Stage; 5] = [Stage::Launch, Stage::Restore, Stage::Pause, Stage::Snapshot, Stage::Stop];

#[tokio::test]
async fn a_monitor_killed_at_any_moment_is_a_typed_error_and_leaves_nothing() {
    let bench = bench!();
    let files = bench.snapshot("template").await;
    let before = leftovers();
    let each = faults().div_ceil(STAGES.len() as u32);
    let mut noticed = BTreeMap::new();
    for stage in STAGES {
        let whole = hit(&bench, &files, stage, None).await.0;
        for number in 0..each {
            let (_, error) = hit(&bench, &files, stage, Some(whole * number / each)).await;
            match error {
                Some(EngineError::Exited { .. }) => *noticed.entry(stage).or_insert(0) += 1,
                None => {}
                Some(other) => panic!("{stage:?}, {number} of {each}: {other:?}"),
            }
        }
    }
    eprintln!("of {each} kills at each stage the operation noticed: {noticed:?}");
    assert!(noticed.values().sum::<u32>() >= each, "{noticed:?}");
    nothing_but(&before).await;
}

/// Carries out one stage on a machine of its own and kills its monitor after a while. How long it took, and its
/// error; none when it was faster, or had not begun.
async fn hit(
    bench: &Bench,
    files: &SnapshotFiles,
    stage: Stage,
    after: Option<Duration>,
) -> (Duration, Option<EngineError>) {
    let blow = async {
        if let Some(after) = after {
            sleep(after).await;
            monitors(bench).into_iter().for_each(end);
        }
    };
    let dir = tempfile::tempdir_in(bench.dir.path()).expect("a directory");
    let machine: Option<Box<dyn Machine>> = match stage {
        Stage::Launch | Stage::Restore => None,
        Stage::Snapshot => {
            let machine =
                bench.engine.launch(bench.boot_spec(Some(dir.path()))).await.expect("launched").machine;
            bench.answers(&*machine).await.expect("it answers");
            Some(machine)
        }
        Stage::Pause | Stage::Stop => {
            Some(bench.engine.restore(bench.restore_spec(files)).await.expect("restored").machine)
        }
    };
    let began = Instant::now();
    let work = async {
        let result = match (stage, machine) {
            (Stage::Launch, _) => {
                bench.engine.launch(bench.boot_spec(None)).await.map(|started| Some(started.machine))
            }
            (Stage::Restore, _) => {
                bench.engine.restore(bench.restore_spec(files)).await.map(|started| Some(started.machine))
            }
            (Stage::Pause, Some(machine)) => machine.pause().await.map(|()| Some(machine)),
            (Stage::Snapshot, Some(machine)) => machine.snapshot().await.map(|_| Some(machine)),
            (Stage::Stop, Some(machine)) => {
                machine.kill().await;
                Ok(None)
            }
            (_, None) => Ok(None),
        };
        (began.elapsed(), result)
    };
    let ((took, result), ()) = tokio::join!(work, blow);
    match result {
        Ok(machine) => {
            if let Some(machine) = machine {
                machine.kill().await;
            }
            (took, None)
        }
        Err(error) => (took, Some(error)),
    }
}

fn faults() -> u32 {
    env::var("REKINDLE_FAULTS").ok().and_then(|text| text.parse().ok()).unwrap_or(FAULTS)
}

/// The bench's own monitors, by their users, and its jailers, by their directory: nobody else's are touched.
fn monitors(bench: &Bench) -> Vec<u32> {
    let made = bench.machines.load(Ordering::Relaxed);
    let dir = bench.dir.path().to_string_lossy();
    let pids = fs::read_dir("/proc").expect("readable").flatten();
    let pids = pids.filter_map(|entry| entry.file_name().to_str()?.parse::<u32>().ok());
    let read = |pid: u32, name: &str| fs::read_to_string(format!("/proc/{pid}/{name}")).unwrap_or_default();
    let own = |pid: u32| {
        let status = read(pid, "status");
        let line = status.lines().find(|line| line.starts_with("Uid:")).unwrap_or_default();
        let user = line.split_ascii_whitespace().nth(1).and_then(|uid| uid.parse::<u32>().ok());
        let users = FIRST_USER..FIRST_USER + made;
        user.is_some_and(|uid| users.contains(&uid)) || read(pid, "cmdline").contains(&*dir)
    };
    pids.filter(|pid| is_monitor(&read(*pid, "comm")) && own(*pid)).collect()
}

fn is_monitor(comm: &str) -> bool {
    ["firecracker", "jailer"].contains(&comm.trim())
}

/// Waits until nothing is there that was not before.
async fn nothing_but(before: &[String]) {
    until("nothing is left behind", || leftovers() == before).await;
}

/// Processes of monitors, leaders of their namespaces, and mounts of this machine, by name.
fn leftovers() -> Vec<String> {
    let mut found: Vec<String> = Vec::new();
    for entry in fs::read_dir("/proc").expect("readable").flatten() {
        let comm = fs::read_to_string(entry.path().join("comm")).unwrap_or_default();
        let line = fs::read_to_string(entry.path().join("cmdline")).unwrap_or_default();
        if line == "/bin/sh\0-c\0read -r _\0" {
            found.push("the leader of a namespace set".to_owned());
        }
        if is_monitor(&comm) {
            found.push(comm.trim().to_owned());
        }
    }
    let mounts = fs::read_to_string("/proc/self/mountinfo").expect("readable");
    found.extend(mounts.lines().filter_map(|line| line.split(' ').nth(4)).map(str::to_owned));
    found.sort();
    found
}
