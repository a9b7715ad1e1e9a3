//! Processes on the real kernel: exits, escalation, zombies, identity.

use std::path::PathBuf;
use std::time::Duration;

use rustix::process::Signal;

use super::{ExitReport, Process, ProcessIdentity, ProcessSpec, RunAs, SpawnError, StopStep, Tail, spawn};

async fn shell(script: &str) -> Process {
    spawn(ProcessSpec {
        program: PathBuf::from("/bin/sh"),
        args: vec!["-c".into(), script.into()],
        ..ProcessSpec::default()
    })
    .await
    .expect("the shell starts")
}

#[tokio::test]
async fn an_exit_code_and_the_last_words_are_reported() {
    let process = shell("echo out; echo err >&2; exit 7").await;
    assert_eq!(process.wait().await, ExitReport::Exited { code: 7 });
    assert_eq!(process.output().text(), "out\nerr");
    assert_eq!(process.wait().await, ExitReport::Exited { code: 7 }, "a second waiter gets the same");
}

#[tokio::test]
async fn a_program_that_does_not_exist_is_a_typed_error() {
    let error = spawn(ProcessSpec { program: PathBuf::from("/no/such/program"), ..ProcessSpec::default() })
        .await
        .expect_err("it cannot start");
    assert!(matches!(error, SpawnError::Start { .. }), "{error:?}");
}

#[tokio::test]
async fn a_process_that_ignores_the_polite_signal_is_killed_by_the_next_step() {
    let process = shell("trap '' TERM; echo ready; while :; do sleep 1; done").await;
    while process.output().text() != "ready" {
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
    let steps = [StopStep { signal: Signal::TERM, grace: Duration::from_millis(100) }];
    assert_eq!(process.stop(&steps).await, ExitReport::Signaled { signal: 9 });
}

#[tokio::test]
async fn a_dropped_process_is_killed_and_leaves_no_zombie() {
    let process = shell("exec sleep 1000").await;
    let identity = process.identity().clone();
    let ended = process.exit.clone();
    drop(process);
    let mut ended = ended;
    tokio::time::timeout(Duration::from_secs(10), ended.wait_for(Option::is_some))
        .await
        .expect("it ends soon")
        .expect("its end is reported");
    assert!(ProcessIdentity::of(identity.pid).is_err(), "not even a zombie is left");
}

#[test]
fn a_process_dies_with_the_runtime_that_started_it() {
    let runtime = tokio::runtime::Runtime::new().expect("a runtime");
    let process = runtime.block_on(shell("exec sleep 1000"));
    let identity = process.identity().clone();
    std::mem::forget(process);
    drop(runtime);
    // A later job on the spawner thread runs after the reaping.
    let runtime = tokio::runtime::Runtime::new().expect("a runtime");
    runtime.block_on(async { shell("true").await.wait().await });
    assert!(!identity.is_alive());
}

#[tokio::test]
async fn an_identity_matches_only_the_very_same_process() {
    let process = shell("exec sleep 1000").await;
    let identity = process.identity().clone();
    assert!(identity.is_alive());
    let reused = ProcessIdentity { start_ticks: identity.start_ticks + 1, ..identity.clone() };
    assert!(!reused.is_alive());
    assert!(!reused.kill(Duration::from_secs(1)).expect("nothing to do"), "another process is left alone");
    let rebooted = ProcessIdentity { boot_id: "another".into(), ..identity.clone() };
    assert!(!rebooted.kill(Duration::from_secs(1)).expect("nothing to do"));
    assert!(identity.is_alive());
    assert!(identity.kill(Duration::from_secs(10)).expect("it may be killed"));
    assert_eq!(process.wait().await, ExitReport::Signaled { signal: 9 });
    assert!(!identity.kill(Duration::from_secs(1)).expect("nothing left to kill"));
}

#[tokio::test]
async fn a_child_has_an_empty_environment_and_no_privileges_to_gain() {
    let process = shell("env | grep -v -e ^PWD= -e ^SHLVL= -e ^_=; grep NoNewPrivs /proc/self/status").await;
    process.wait().await;
    assert_eq!(process.output().text(), "NoNewPrivs:\t1");
}

#[tokio::test]
async fn a_child_started_by_root_becomes_the_given_user() {
    if !nix::unistd::geteuid().is_root() {
        rekindle_test_support::skip!("becoming another user needs root");
    }
    let spec = ProcessSpec {
        program: PathBuf::from("/bin/sh"),
        args: vec!["-c".into(), "id -u; id -g; id -G; grep CapEff /proc/self/status".into()],
        run_as: Some(RunAs { uid: 61_234, gid: 61_235 }),
        ..ProcessSpec::default()
    };
    let process = spawn(spec).await.expect("the shell starts");
    process.wait().await;
    assert_eq!(process.output().text(), "61234\n61235\n61235\nCapEff:\t0000000000000000");
}

#[tokio::test]
async fn an_inherited_descriptor_keeps_its_number() {
    use std::io::Write;
    use std::os::fd::AsRawFd;
    let mut file = tempfile::tempfile().expect("a file");
    file.write_all(b"through the descriptor").expect("written");
    let fd = file.as_raw_fd();
    let spec = ProcessSpec {
        program: PathBuf::from("/bin/sh"),
        args: vec!["-c".into(), format!("cat /proc/self/fd/{fd}").into()],
        inherit: vec![file.into()],
        ..ProcessSpec::default()
    };
    let process = spawn(spec).await.expect("the shell starts");
    process.wait().await;
    assert_eq!(process.output().text(), "through the descriptor");
}

#[test]
fn a_tail_keeps_the_end_and_never_more_than_its_limit() {
    let tail = Tail::new(8);
    tail.push(b"abc");
    tail.push(b"defgh");
    assert_eq!(tail.bytes(), b"abcdefgh");
    tail.push(b"IJ");
    assert_eq!(tail.bytes(), b"cdefghIJ");
    tail.push(b"a push longer than the whole window");
    assert_eq!(tail.bytes(), b"e window");
}

/// Plays two parts: the test, and the supervisor that the test starts and kills.
#[test]
fn a_child_dies_when_its_supervisor_is_killed() {
    use std::io::{BufRead, BufReader};
    use std::process::{Command, Stdio};

    const PART: &str = "REKINDLE_TEST_PLAYS_THE_SUPERVISOR";
    const NAME: &str = "host::process::tests::a_child_dies_when_its_supervisor_is_killed";
    if std::env::var_os(PART).is_some() {
        let runtime = tokio::runtime::Runtime::new().expect("a runtime");
        let user = nix::unistd::geteuid().is_root().then_some(RunAs { uid: 61_234, gid: 61_235 });
        let spec = ProcessSpec {
            program: PathBuf::from("/bin/sleep"),
            args: vec!["1000".into()],
            run_as: user,
            ..ProcessSpec::default()
        };
        let process = runtime.block_on(spawn(spec)).expect("started");
        println!("\nchild {}", serde_json::to_string(process.identity()).expect("JSON"));
        runtime.block_on(process.wait());
        return;
    }
    let mut supervisor = Command::new(std::env::current_exe().expect("this program"))
        .args(["--exact", NAME, "--nocapture"])
        .env(PART, "1")
        .stdout(Stdio::piped())
        .spawn()
        .expect("started");
    let lines = BufReader::new(supervisor.stdout.take().expect("piped")).lines();
    let child = lines
        .map_while(Result::ok)
        .find_map(|line| serde_json::from_str::<ProcessIdentity>(line.strip_prefix("child ")?).ok())
        .expect("it names its child");
    assert!(child.is_alive());
    supervisor.kill().expect("killed");
    supervisor.wait().expect("reaped");
    let deadline = std::time::Instant::now() + Duration::from_secs(10);
    while child.is_alive() {
        assert!(std::time::Instant::now() < deadline, "the child outlives its supervisor");
        std::thread::sleep(Duration::from_millis(5));
    }
}
