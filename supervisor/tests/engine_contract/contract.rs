//! The promises of an engine.

use std::fs;
use std::time::Duration;

use rekindle::engine::{EngineError, Operation};
use rekindle_test_support::wait::until;
use sha2::{Digest, Sha256};

use super::bench::Bench;

/// Every promise, one after the other: booting is the expensive part, so they share a snapshot.
pub async fn holds(bench: &Bench) {
    a_machine_launched_without_a_snapshot_directory_cannot_be_frozen(bench).await;
    let files = bench.snapshot("template").await;
    let before = digest(&files.memory);

    clones_run_side_by_side_and_leave_the_snapshot_alone(bench, &files).await;
    pause_and_resume_can_be_repeated(bench, &files).await;
    a_connection_can_be_closed_and_dialled_again(bench, &files).await;
    a_killed_machine_reports_its_end_to_every_waiter(bench, &files).await;
    a_dropped_machine_leaves_no_process(bench, &files).await;
    a_prepared_monitor_waits_for_its_load(bench, &files).await;
    a_broken_snapshot_is_an_error_and_leaves_no_process(bench, &files).await;
    a_missing_file_is_named(bench, &files).await;
    a_deadline_ends_a_start(bench, &files).await;
    a_frozen_machine_does_not_run_again(bench).await;

    assert_eq!(digest(&files.memory), before, "the memory file never changes");
}

type Files = rekindle::engine::SnapshotFiles;

async fn a_machine_launched_without_a_snapshot_directory_cannot_be_frozen(bench: &Bench) {
    let started = bench.engine.launch(bench.boot_spec(None)).await.expect("launched");
    assert!(!started.timings.stages.is_empty());
    let error = started.machine.snapshot().await.expect_err("refused");
    assert!(matches!(error, EngineError::Refused { operation: Operation::Snapshot, .. }), "{error:?}");
    assert!(started.machine.try_exit().is_none(), "it goes on as it was");
    bench.answers(&*started.machine).await.expect("it answers");
    started.machine.kill().await;
}

async fn clones_run_side_by_side_and_leave_the_snapshot_alone(bench: &Bench, files: &Files) {
    let mut clones = Vec::new();
    for _ in 0..3 {
        let started = bench.engine.restore(bench.restore_spec(files)).await.expect("restored");
        let stages: Vec<&str> = started.timings.stages.iter().map(|stage| stage.name).collect();
        assert!(stages.contains(&"spawn") && stages.contains(&"load"), "{stages:?}");
        eprintln!("restored in {:?}: {:?}", started.timings.total(), started.timings.stages);
        clones.push(started.machine);
    }
    for clone in &clones {
        bench.answers(&**clone).await.expect("each clone answers");
    }
    for clone in clones {
        clone.kill().await;
    }
}

async fn pause_and_resume_can_be_repeated(bench: &Bench, files: &Files) {
    let machine = bench.engine.restore(bench.restore_spec(files)).await.expect("restored").machine;
    // A guest that is well under way, and one that has only begun, may behave differently.
    bench.answers(&*machine).await.expect("it answers");
    for _ in 0..3 {
        machine.pause().await.expect("paused");
        machine.pause().await.expect("pausing twice is fine");
        machine.resume().await.expect("resumed");
        machine.resume().await.expect("resuming twice is fine");
    }
    bench.answers(&*machine).await.expect("it still answers");
    machine.kill().await;
}

async fn a_connection_can_be_closed_and_dialled_again(bench: &Bench, files: &Files) {
    let machine = bench.engine.restore(bench.restore_spec(files)).await.expect("restored").machine;
    for round in 0..5 {
        bench.answers(&*machine).await.unwrap_or_else(|error| panic!("round {round}: {error}"));
    }
    // A connection that says nothing does not spoil the next one.
    drop(machine.dial().await.expect("dialled"));
    bench.answers(&*machine).await.expect("it answers after a silent connection");
    machine.kill().await;
}

async fn a_killed_machine_reports_its_end_to_every_waiter(bench: &Bench, files: &Files) {
    let machine = bench.engine.restore(bench.restore_spec(files)).await.expect("restored").machine;
    assert!(machine.try_exit().is_none());
    let (first, second, killed) = tokio::join!(machine.wait(), machine.wait(), machine.kill());
    assert!(first == second && second == killed && !killed.is_success(), "{first} {second} {killed}");
    assert_eq!(machine.try_exit(), Some(killed));
    assert_eq!(machine.kill().await, killed, "killing twice is fine");
    let error = machine.pause().await.expect_err("nothing to pause");
    assert!(matches!(error, EngineError::Exited { operation: Operation::Pause, .. }), "{error:?}");
    let error = machine.dial().await.map(|_| ()).expect_err("nothing to dial");
    assert!(matches!(error, EngineError::Exited { operation: Operation::Dial, .. }), "{error:?}");
}

async fn a_dropped_machine_leaves_no_process(bench: &Bench, files: &Files) {
    let machine = bench.engine.restore(bench.restore_spec(files)).await.expect("restored").machine;
    let Some(process) = machine.process().cloned() else { return };
    assert!(process.is_alive());
    drop(machine);
    gone(&process).await;
}

async fn a_prepared_monitor_waits_for_its_load(bench: &Bench, files: &Files) {
    let prepared = bench.engine.prespawn(bench.restore_spec(files)).await.expect("prepared");
    tokio::time::sleep(Duration::from_millis(300)).await;
    let started = prepared.load().await.expect("loaded");
    let waited = started.timings.total();
    bench.answers(&*started.machine).await.expect("it answers");
    eprintln!("prepared and loaded in {waited:?}");
    started.machine.kill().await;
    let unused = bench.engine.prespawn(bench.restore_spec(files)).await.expect("prepared");
    let process = unused.process().cloned();
    drop(unused);
    if let Some(process) = process {
        gone(&process).await;
    }
}

async fn a_broken_snapshot_is_an_error_and_leaves_no_process(bench: &Bench, files: &Files) {
    let dir = bench.dir.path().join("broken");
    fs::create_dir(&dir).expect("made");
    let state = fs::read(&files.state).expect("readable");
    let flipped: Vec<u8> = state.iter().map(|byte| byte ^ 0xff).collect();
    for (name, bytes) in [("empty", &[][..]), ("half", &state[..state.len() / 2]), ("flipped", &flipped)] {
        let broken = Files { state: dir.join(name), ..files.clone() };
        fs::write(&broken.state, bytes).expect("written");
        let error = bench.engine.restore(bench.restore_spec(&broken)).await.map(|_| ()).expect_err(name);
        assert!(
            matches!(error, EngineError::Exited { .. } | EngineError::Control { .. }),
            "{name}: {error:?}"
        );
        eprintln!("{name} state: {error}: {:?}", std::error::Error::source(&error).map(ToString::to_string));
    }
    let short = Files { memory: dir.join("memory"), ..files.clone() };
    fs::write(&short.memory, "short").expect("written");
    let error = bench.engine.restore(bench.restore_spec(&short)).await.map(|_| ()).expect_err("too short");
    assert!(matches!(error, EngineError::Refused { .. }), "{error:?}");
}

async fn a_missing_file_is_named(bench: &Bench, files: &Files) {
    let mut spec = bench.restore_spec(files);
    spec.hardware.image = bench.dir.path().join("no-such-image");
    let error = bench.engine.restore(spec).await.map(|_| ()).expect_err("no image");
    assert!(
        matches!(&error, EngineError::File { .. }) && error.to_string().contains("no-such-image"),
        "{error}"
    );
    let mut spec = bench.boot_spec(None);
    spec.kernel = bench.dir.path().join("no-such-kernel");
    let error = bench.engine.launch(spec).await.map(|_| ()).expect_err("no kernel");
    assert!(error.to_string().contains("no-such-kernel"), "{error}");
}

async fn a_deadline_ends_a_start(bench: &Bench, files: &Files) {
    let mut spec = bench.restore_spec(files);
    spec.home.deadline = Duration::from_nanos(1);
    match bench.engine.restore(spec).await {
        Err(EngineError::Deadline { .. }) => {}
        // An engine without a monitor may be faster than any deadline.
        Ok(started) => assert!(started.machine.process().is_none()),
        Err(other) => panic!("{other:?}"),
    }
}

async fn a_frozen_machine_does_not_run_again(bench: &Bench) {
    let dir = bench.dir.path().join("frozen");
    fs::create_dir(&dir).expect("made");
    let machine = bench.engine.launch(bench.boot_spec(Some(&dir))).await.expect("launched").machine;
    bench.answers(&*machine).await.expect("it answers");
    machine.pause().await.expect("paused");
    machine.snapshot().await.expect("frozen");
    let error = machine.resume().await.expect_err("refused");
    assert!(matches!(error, EngineError::Refused { operation: Operation::Resume, .. }), "{error:?}");
    let error = machine.snapshot().await.expect_err("refused");
    assert!(matches!(error, EngineError::Refused { operation: Operation::Snapshot, .. }), "{error:?}");
    machine.kill().await;
}

async fn gone(process: &rekindle::host::process::ProcessIdentity) {
    until("the process ends", || !process.is_alive()).await;
}

fn digest(path: &std::path::Path) -> Vec<u8> {
    let mut hash = Sha256::new();
    let mut file = fs::File::open(path).expect("readable");
    let mut buffer = vec![0_u8; 1 << 20];
    while let Ok(count @ 1..) = std::io::Read::read(&mut file, &mut buffer) {
        hash.update(&buffer[..count]);
    }
    hash.finalize().to_vec()
}
