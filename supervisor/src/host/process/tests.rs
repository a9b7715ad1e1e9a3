//! Processes on the real kernel: exits, escalation, zombies, identity.

use std::path::PathBuf;
use std::time::Duration;

use rekindle_test_support::wait::{block_until, until};
use rustix::process::Signal;

use super::{
    Bind, ExitReport, Namespaces, Process, ProcessIdentity, ProcessSpec, RunAs, SpawnError, StopStep, Tail,
    spawn,
};

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
    until("it is ready", || process.output().text() == "ready").await;
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

#[tokio::test(start_paused = true)]
async fn a_stream_without_end_is_read_at_a_bounded_pace() {
    let (reader, mut writer) = tokio::io::duplex(1 << 20);
    let tail = Tail::new(8);
    tokio::spawn(tail.clone().drain(reader));
    let mut progress = tail.progress();
    let begun = tokio::time::Instant::now();
    tokio::io::AsyncWriteExt::write_all(&mut writer, &[b'x'; 1 << 20]).await.expect("written");
    drop(writer);
    let mut reads = 0;
    while tokio::time::timeout(std::time::Duration::from_secs(60), progress.more()).await.is_ok() {
        reads += 1;
    }
    let took = begun.elapsed() - std::time::Duration::from_secs(60);
    assert_eq!((reads, tail.text().as_str()), (64, "xxxxxxxx"));
    assert!(took >= std::time::Duration::from_millis(63 * 5), "{took:?} of virtual time");
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
        // One that changes its user by itself, in namespaces of its own.
        let spec = ProcessSpec {
            program: PathBuf::from("/usr/bin/setpriv"),
            args: ["--reuid", "61234", "--clear-groups", "sleep", "1000"].map(Into::into).into(),
            namespaces: Some(Namespaces::default()),
            ..ProcessSpec::default()
        };
        let led = can_unshare().then(|| runtime.block_on(spawn(spec)).expect("started"));
        let identities: Vec<_> = led.iter().chain([&process]).map(Process::identity).collect();
        println!("\nchildren {}", serde_json::to_string(&identities).expect("JSON"));
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
    let children = lines
        .map_while(Result::ok)
        .find_map(|line| serde_json::from_str::<Vec<ProcessIdentity>>(line.strip_prefix("children ")?).ok())
        .expect("it names its children");
    assert!(children.iter().all(ProcessIdentity::is_alive));
    supervisor.kill().expect("killed");
    supervisor.wait().expect("reaped");
    block_until("no child outlives its supervisor", || !children.iter().any(ProcessIdentity::is_alive));
}

/// What namespaces need.
fn can_unshare() -> bool {
    std::process::Command::new("unshare")
        .args(["--mount", "--pid", "--net", "--fork", "true"])
        .output()
        .is_ok_and(|output| output.status.success())
}

#[tokio::test]
async fn a_namespace_hides_the_host_shows_its_binds_and_reports_the_exit_code() {
    if !can_unshare() {
        rekindle_test_support::skip!("namespaces cannot be made here");
    }
    let dir = tempfile::tempdir().expect("a directory");
    let (source, target) = (dir.path().join("source"), dir.path().join("target"));
    std::fs::write(&source, "bound").expect("written");
    std::fs::write(&target, "").expect("written");
    let script = format!(
        "cat {0}; echo; echo x 2>/dev/null >{0} || echo read-only; ls /sys/class/net; echo $$; exit 7",
        target.display()
    );
    let spec = ProcessSpec {
        program: PathBuf::from("/bin/sh"),
        args: vec!["-c".into(), script.into()],
        namespaces: Some(Namespaces {
            binds: vec![Bind { source, target: target.clone(), writable: false }],
        }),
        ..ProcessSpec::default()
    };
    let process = spawn(spec).await.expect("started");
    assert_eq!(process.wait().await, ExitReport::Exited { code: 7 });
    let text = process.output().text();
    assert!(text.starts_with("bound\nread-only\n") && text.ends_with("\n2"), "{text}");
    assert_eq!(std::fs::read_to_string(&target).expect("readable"), "", "the host does not see the bind");
}

#[tokio::test]
async fn whatever_a_program_started_in_its_namespaces_ends_before_its_own_end_is_reported() {
    if !can_unshare() {
        rekindle_test_support::skip!("namespaces cannot be made here");
    }
    let spec = ProcessSpec {
        program: PathBuf::from("/bin/sh"),
        // A user of its own takes the tie to the parent away, as a jailer does.
        args: vec![
            "-c".into(),
            "setpriv --reuid 61234 --clear-groups sleep 4321 & echo started; wait".into(),
        ],
        namespaces: Some(Namespaces::default()),
        ..ProcessSpec::default()
    };
    let process = spawn(spec).await.expect("started");
    until("it has started", || process.output().text() == "started").await;
    let family = descendants(process.identity().pid);
    assert!(!family.is_empty(), "{family:?}");
    assert_eq!(process.kill().await, ExitReport::Signaled { signal: 9 });
    let alive: Vec<_> = family.iter().filter(|member| member.is_alive()).collect();
    assert!(alive.is_empty(), "{alive:?}");
}

/// Children of a process, and theirs.
fn descendants(pid: u32) -> Vec<ProcessIdentity> {
    let children = std::fs::read_to_string(format!("/proc/{pid}/task/{pid}/children")).unwrap_or_default();
    let children = children.split_ascii_whitespace().filter_map(|child| child.parse().ok());
    children.flat_map(|child: u32| ProcessIdentity::of(child).into_iter().chain(descendants(child))).collect()
}
