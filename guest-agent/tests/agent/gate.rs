//! The restore gate: nothing of a caller's runs before a clone is its own, and a failure is final.

use rekindle::agent::{
    AgentClient, AgentError, MkdirOptions, Refusal, RestoreRequest, Scratch, UploadOptions,
};
use rekindle_test_support::wait::{until, until_answer};

use crate::agent;
use crate::harness::{Agent, PATIENCE, SOON, Setup, Transport, path, restore_request, shell, var};

/// A copy of `/etc` that can be written to, and names of its own.
const OWN_IDENTITY: &str = "cp -a /etc \"$HOME/../etc\" && mount --bind \"$HOME/../etc\" /etc";

/// An interpreter from before the snapshot that answers when it is told to take fresh randomness.
const ANSWERS: &str = "mount -t tmpfs none /run && mkdir -p /run/rekindle/interpreters && { \
    sh -c 'trap \"touch $HOME/../reseeded; rm /run/rekindle/interpreters/$$\" USR2; \
           touch \"$HOME/../listens\"; sleep 60 & wait $!; kill $!' & \
    echo node > /run/rekindle/interpreters/$!; } && \
    until [ -e \"$HOME/../listens\" ]; do sleep 0.05; done";

/// One that does not.
const KEEPS_SILENT: &str = "mount -t tmpfs none /run && mkdir -p /run/rekindle/interpreters && { \
    (trap '' USR2; touch \"$HOME/../listens\"; exec sleep 60) & \
    echo node > /run/rekindle/interpreters/$!; } && \
    until [ -e \"$HOME/../listens\" ]; do sleep 0.05; done";

fn closed() -> Setup {
    Setup { gate: false, ..Setup::default() }
}

/// What everything a caller can ask for is refused with.
async fn refusals(agent: &Agent) -> Vec<Refusal> {
    let client = &agent.client;
    let here = path("file");
    let errors: Vec<AgentError> = vec![
        client.run(shell("touch ran")).await.expect_err("closed"),
        client.upload_bytes(&here, UploadOptions::default(), b"x", PATIENCE).await.expect_err("closed"),
        client.download(&here, 1, tokio::io::sink(), PATIENCE).await.expect_err("closed"),
        client.stat(&here, false, SOON).await.expect_err("closed"),
        client.list(&path("."), 0, SOON).await.expect_err("closed"),
        client.mkdir(&path("dir"), MkdirOptions::default(), SOON).await.expect_err("closed"),
        client.rename(&here, &path("there"), false, SOON).await.expect_err("closed"),
        client.remove(&here, false, SOON).await.expect_err("closed"),
        client.signal(1, 9, false, SOON).await.expect_err("closed"),
    ];
    errors.iter().map(|error| error.refusal().unwrap_or_else(|| panic!("{error:?}"))).collect()
}

fn untouched(agent: &Agent) -> bool {
    std::fs::read_dir(&agent.home).expect("the home").next().is_none()
}

#[tokio::test]
async fn everything_is_refused_until_the_gate_is_open() {
    let agent = agent!(closed());
    assert!(!agent.client.hello().gate_open);
    agent.client.ping(SOON).await.expect("a ping is answered");
    assert!(refusals(&agent).await.iter().all(|refusal| *refusal == Refusal::GateClosed));
    assert!(untouched(&agent));
    agent.client.restore(restore_request(), SOON).await.expect("opened");
    agent.answers().await;
}

#[tokio::test]
async fn a_request_that_makes_no_sense_leaves_the_gate_closed_and_can_be_repeated() {
    let agent = agent!(closed());
    let good = restore_request;
    let wrong = [
        RestoreRequest { entropy: Default::default(), ..good() },
        RestoreRequest { entropy: vec![1; 31].into(), ..good() },
        RestoreRequest { entropy: vec![1; 513].into(), ..good() },
        RestoreRequest { hostname: "has space".to_owned(), ..good() },
        RestoreRequest { hostname: "x".repeat(64), ..good() },
        RestoreRequest { machine_id: "XYZ".to_owned(), ..good() },
        RestoreRequest { env: vec![var("", "x")], ..good() },
    ];
    for request in wrong {
        let error = agent.client.restore(request.clone(), SOON).await.expect_err("it makes no sense");
        assert_eq!(error.refusal(), Some(Refusal::InvalidArgument), "{request:?}");
        assert_eq!(
            agent.client.run(shell("true")).await.expect_err("closed").refusal(),
            Some(Refusal::GateClosed)
        );
    }
    agent.client.restore(good(), SOON).await.expect("opened");
    agent.answers().await;
}

#[tokio::test]
async fn a_restore_that_fails_half_way_spoils_the_guest_for_good() {
    let agent = agent!(Setup { unshare: vec!["--mount"], ..closed() });
    let scratch =
        Some(Scratch { device: "/dev/no-such-disk".to_owned(), fstype: "ext4".to_owned(), kept: false });
    let error = agent.client.restore(RestoreRequest { scratch, ..restore_request() }, SOON).await;
    let error = error.expect_err("there is no such disk");
    assert_eq!(error.refusal(), Some(Refusal::GateFailed), "{error}");
    assert!(error.to_string().contains("scratch"), "it says which step: {error}");
    assert!(refusals(&agent).await.iter().all(|refusal| *refusal == Refusal::GateFailed));
    let again = agent.client.restore(restore_request(), SOON).await.expect_err("no second chance");
    assert_eq!(again.refusal(), Some(Refusal::GateFailed));
    assert!(untouched(&agent));
}

#[tokio::test]
async fn an_interpreter_takes_fresh_randomness_before_the_gate_opens() {
    let agent = agent!(Setup { unshare: vec!["--mount"], before: ANSWERS, ..closed() });
    let reseeded = agent.home.join("../reseeded");
    assert!(!reseeded.exists(), "not before a restore");
    agent.client.restore(restore_request(), SOON).await.expect("opened");
    assert!(reseeded.exists());
    agent.answers().await;
}

#[tokio::test]
async fn an_interpreter_that_takes_no_fresh_randomness_keeps_the_gate_closed() {
    let agent = agent!(Setup { unshare: vec!["--mount"], before: KEEPS_SILENT, ..closed() });
    let error = agent.client.restore(restore_request(), SOON).await.expect_err("it does not answer");
    assert_eq!(error.refusal(), Some(Refusal::GateFailed), "{error}");
    assert!(error.to_string().contains("interpreters"), "it says which step: {error}");
    assert!(refusals(&agent).await.iter().all(|refusal| *refusal == Refusal::GateFailed));
}

#[tokio::test]
async fn a_clone_gets_a_name_and_an_identity_of_its_own() {
    let agent = agent!(Setup { unshare: vec!["--mount", "--uts"], before: OWN_IDENTITY, ..closed() });
    let machine_id = "0123456789abcdef0123456789abcdef";
    let request = RestoreRequest {
        hostname: "sandbox-7".to_owned(),
        machine_id: machine_id.to_owned(),
        ..restore_request()
    };
    agent.client.restore(request, SOON).await.expect("opened");
    assert_eq!(
        agent.shell("cat /proc/sys/kernel/hostname /etc/hostname /etc/machine-id").await,
        format!("sandbox-7\nsandbox-7\n{machine_id}\n")
    );
    assert!(agent.shell("cat /etc/hosts").await.contains("sandbox-7"));
}

#[tokio::test]
async fn the_wall_clock_of_an_open_guest_can_be_set_again() {
    let agent = agent!(closed());
    let refused = agent.client.set_clock(SOON).await.expect_err("closed");
    assert_eq!(refused.refusal(), Some(Refusal::GateClosed));
    agent.client.restore(restore_request(), SOON).await.expect("opened");
    // To what it already is: this machine's clock is not ours to move.
    match agent.client.set_clock(SOON).await {
        Ok(()) => {}
        Err(error) if error.to_string().contains("not permitted") => {
            rekindle_test_support::skip!("this machine's clock cannot be set: {error}");
        }
        Err(error) => panic!("{error}"),
    }
    agent.answers().await;
}

#[tokio::test]
async fn the_wall_clock_can_be_set() {
    let agent = agent!(closed());
    // To what it already is: this machine's clock is not ours to move.
    let now = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH).expect("after 1970");
    let request = RestoreRequest { unix_nanos: now.as_nanos() as u64, ..restore_request() };
    match agent.client.restore(request, SOON).await {
        Ok(()) => {}
        Err(error) if error.to_string().contains("not permitted") => {
            rekindle_test_support::skip!("this machine's clock cannot be set: {error}");
        }
        Err(error) => panic!("{error:?}"),
    }
    let pong = agent.client.ping(SOON).await.expect("a pong");
    let passed = pong.unix_nanos.abs_diff(now.as_nanos() as u64);
    assert!(passed < SOON.as_nanos() as u64, "{passed} ns");
}

#[tokio::test]
async fn a_scratch_disk_takes_what_the_sandbox_writes_and_shows_what_was_there() {
    let before = "echo before > \"$HOME/old\"";
    let agent = agent!(Setup { unshare: vec!["--mount"], before, ..closed() });
    let scratch = Some(Scratch { device: "none".to_owned(), fstype: "tmpfs".to_owned(), kept: false });
    match agent.client.restore(RestoreRequest { scratch, ..restore_request() }, SOON).await {
        Ok(()) => {}
        Err(error) if error.to_string().contains("overlay") => {
            rekindle_test_support::skip!("this machine cannot lay one directory over another: {error}");
        }
        Err(error) => panic!("{error:?}"),
    }
    assert_eq!(
        agent.shell("cat old; echo after > new; echo tmp > /tmp/rekindle-new; cat new").await,
        "before\nafter\n"
    );
    agent.client.upload_bytes(&path("up"), UploadOptions::default(), b"x", PATIENCE).await.expect("uploaded");
    assert!(
        !agent.home.join("new").exists() && !agent.home.join("up").exists(),
        "the disk has it, not the image"
    );
    assert!(!std::path::Path::new("/tmp/rekindle-new").exists());
    let spilled =
        agent.run(shell("head -c 10000 /dev/zero")).await.stdout.spilled_path.expect("it is spilled");
    agent.client.stat(&spilled, false, SOON).await.expect("spilled output is on it too");
    agent.answers().await;
}

/// Asks again for as long as something runs.
async fn quiet(mut ask: impl AsyncFnMut() -> Result<(), AgentError>) {
    until_answer("nothing runs", async || {
        ask().await.map_err(|error| assert_eq!(error.refusal(), Some(Refusal::Busy), "{error}")).ok()
    })
    .await;
}

#[tokio::test]
async fn quiescing_closes_the_gate_ends_the_session_and_is_refused_while_something_runs() {
    let mut agent = agent!(Setup { transport: Transport::Listen, ..Setup::default() });
    let running = agent.client.execute(shell("sleep 1000")).await.expect("started");
    let error = agent.client.quiesce(false, SOON).await.expect_err("something runs");
    assert_eq!(error.refusal(), Some(Refusal::Busy));
    drop(running);
    // The kill takes a moment.
    quiet(async || agent.client.quiesce(false, SOON).await).await;
    tokio::time::timeout(SOON, agent.client.closed()).await.expect("a quiet guest holds no session");

    agent.client = AgentClient::connect(agent.dial().await, SOON).await.expect("a session");
    assert!(!agent.client.hello().gate_open);
    assert!(refusals(&agent).await.iter().all(|refusal| *refusal == Refusal::GateClosed));
    until("nothing was touched", || untouched(&agent)).await;
    agent.client.restore(restore_request(), SOON).await.expect("opened again");
    agent.answers().await;
}

#[tokio::test]
async fn whoever_has_the_result_of_an_execution_can_quiesce_or_renew_at_once() {
    let mut agent = agent!(Setup { transport: Transport::Listen, ..Setup::default() });
    for _ in 0..20 {
        agent.run(shell("true")).await;
        let renewal = RestoreRequest { renew: true, ..restore_request() };
        agent.client.restore(renewal, SOON).await.expect("nothing is under way");
        agent.run(shell("true")).await;
        agent.client.quiesce(false, SOON).await.expect("nothing is under way");
        agent.client = AgentClient::connect(agent.dial().await, SOON).await.expect("a session");
        agent.client.restore(restore_request(), SOON).await.expect("opened again");
    }
}

#[tokio::test]
async fn programs_behind_a_gate_that_was_quiet_run_on_every_processor_and_without_a_rank() {
    const STANDING: &str = "grep Cpus_allowed_list /proc/self/status; nice";
    let mut agent = agent!(Setup { transport: Transport::Listen, ..Setup::default() });
    let before = agent.shell(STANDING).await;
    agent.client.quiesce(false, SOON).await.expect("nothing is under way");
    agent.client = AgentClient::connect(agent.dial().await, SOON).await.expect("a session");
    agent.client.restore(restore_request(), SOON).await.expect("opened again");
    for _ in 0..2 {
        assert_eq!(agent.shell(STANDING).await, before);
    }
}

#[tokio::test]
async fn a_host_that_leaves_before_a_quiesce_is_done_does_not_end_the_next_session() {
    use rekindle_protocol::wire::{QuiesceRequest, Request, request::Op};

    let mut agent = agent!(Setup { transport: Transport::Listen, ..Setup::default() });
    for _ in 0..10 {
        let opener = crate::bad_input::greeted(agent.dial().await).await;
        let mut stream = opener.open().await.expect("a stream");
        let request = Request { op: Some(Op::Quiesce(QuiesceRequest { drop_caches: false })) };
        rekindle_protocol::frame::write(&mut stream, &request).await.expect("sent");
        drop((stream, opener));
        agent.client = AgentClient::connect(agent.dial().await, SOON).await.expect("a session");
        tokio::time::sleep(std::time::Duration::from_millis(300)).await;
        agent.client.ping(SOON).await.expect("the session lives");
    }
}

#[tokio::test]
async fn a_gate_opens_only_once() {
    let agent = agent!();
    let error = agent.client.restore(restore_request(), SOON).await.expect_err("it is open");
    assert_eq!(error.refusal(), Some(Refusal::InvalidArgument));
    agent.answers().await;
}

#[tokio::test]
async fn a_renewal_makes_an_open_guest_somebody_elses() {
    let agent = agent!(Setup { unshare: vec!["--mount", "--uts"], before: OWN_IDENTITY, ..closed() });
    let named = |name: &str, renew| RestoreRequest {
        hostname: name.to_owned(),
        env: vec![var("WHO", name)],
        renew,
        ..restore_request()
    };
    agent.client.restore(named("parked", false), SOON).await.expect("opened");
    assert_eq!(agent.shell("echo $WHO; cat /proc/sys/kernel/hostname").await, "parked\nparked\n");
    let error = agent.client.restore(named("x", false), SOON).await.expect_err("not without asking for it");
    assert_eq!(error.refusal(), Some(Refusal::InvalidArgument));
    let scratch = Some(Scratch { device: "/dev/vdb".to_owned(), fstype: "ext4".to_owned(), kept: false });
    let disk = RestoreRequest { scratch, ..named("x", true) };
    let error = agent.client.restore(disk, SOON).await.expect_err("its disk is in place");
    assert_eq!(error.refusal(), Some(Refusal::InvalidArgument));
    let running = agent.client.execute(shell("sleep 1000")).await.expect("started");
    let error = agent.client.restore(named("x", true), SOON).await.expect_err("something runs");
    assert_eq!(error.refusal(), Some(Refusal::Busy));
    drop(running);
    // The kill takes a moment.
    quiet(async || agent.client.restore(named("claimed", true), SOON).await).await;
    assert_eq!(agent.shell("echo $WHO; cat /proc/sys/kernel/hostname").await, "claimed\nclaimed\n");
}
