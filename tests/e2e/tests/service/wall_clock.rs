//! The host's wall clock jumps, far ahead and far back, as that of a machine does whose battery is empty or whose time
//! server comes late: what lives goes on, times to live and bills count what has really passed, and new sandboxes start
//! with the clock as it is.
//!
//! It needs a host whose clock is nobody else's, which is the lab's.

use std::process::Command;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use rekindle_api::client::Client;
use rekindle_api::v1::{CreateSandboxRequest, Sandbox, SandboxEndReason, SandboxState};
use rekindle_e2e::leftovers;
use rekindle_e2e::server::Server;

use crate::calls::{create, create_with, destroy, ended, get, output, python, shell, time};

/// Longer than any time to live, and than snapshots that nobody uses are kept.
const JUMP: i64 = 400 * 24 * 60 * 60;
const HOUR: Duration = Duration::from_secs(60 * 60);
const SOON: Duration = Duration::from_secs(5);

/// The wall clock, which is put right in the end.
struct WallClock {
    began: Instant,
    right: Duration,
}

impl WallClock {
    fn find() -> Self {
        Self { began: Instant::now(), right: now() }
    }

    /// What it would say if nobody had touched it, and so many seconds.
    fn off_by(&self, seconds: i64) {
        let right = (self.right + self.began.elapsed()).as_secs();
        let wanted = right.checked_add_signed(seconds).expect("after 1970");
        let set = Command::new("date").args(["-s", &format!("@{wanted}")]).output().expect("date");
        assert!(set.status.success(), "{}", String::from_utf8_lossy(&set.stderr));
    }
}

impl Drop for WallClock {
    fn drop(&mut self) {
        self.off_by(0);
    }
}

fn now() -> Duration {
    SystemTime::now().duration_since(UNIX_EPOCH).expect("after 1970")
}

/// It runs programs, and ends when its time to live says.
async fn assert_alive(client: &Client, sandbox: &str) {
    assert_eq!(output(client, sandbox, python("print(6 * 7)")).await, "42");
    let Sandbox { expires_at, .. } = get(client, sandbox).await;
    let expires = expires_at.expect("it has a time to live").seconds;
    let left = expires - i64::try_from(now().as_secs()).expect("small");
    assert!((0..=HOUR.as_secs() as i64).contains(&left), "{left} seconds are left of an hour");
}

/// Its own clock is the host's.
async fn assert_same_time(client: &Client, sandbox: &str) {
    let before = now().as_secs();
    let own: u64 = output(client, sandbox, shell("date +%s")).await.parse().expect("a time");
    assert!((before.saturating_sub(1)..=now().as_secs() + 1).contains(&own), "{own} instead of {before}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_host_whose_clock_jumps_serves_on_and_counts_the_time_that_passes() {
    let lab = lab!();
    if !rekindle_test_support::in_lab() {
        rekindle_test_support::skip!("the clock of this machine is not only this test's; the lab has one");
    }
    let _turn = lab.turn().await;
    let data = lab.copy();
    let server = Server::start(data.path(), &[]).await;
    let client = server.client().await;
    let began = Instant::now();
    let an_hour = || CreateSandboxRequest { ttl: time(HOUR), ..CreateSandboxRequest::default() };
    let old = create_with(&client, an_hour()).await.id;

    let clock = WallClock::find();
    let mut all = vec![old.clone()];
    for jump in [JUMP, -JUMP] {
        // One that has little time left when the clock jumps.
        let short = CreateSandboxRequest { ttl: time(SOON), ..CreateSandboxRequest::default() };
        let short = create_with(&client, short).await.id;
        clock.off_by(jump);
        let gone = ended(&client, &short).await;
        assert_eq!(gone.end.map(|end| end.reason()), Some(SandboxEndReason::Expired));
        let new = create_with(&client, an_hour()).await.id;
        assert_same_time(&client, &new).await;
        all.push(new);
        for sandbox in &all {
            assert_alive(&client, sandbox).await;
        }
    }
    clock.off_by(0);
    let last = create(&client).await.id;
    assert_same_time(&client, &last).await;
    all.push(last);
    for sandbox in all {
        let destroyed = destroy(&client, &sandbox).await;
        assert_eq!(destroyed.state(), SandboxState::Ended);
        let ran = destroyed.usage.and_then(|usage| usage.running_time).expect("it has run");
        let most = began.elapsed().as_secs() as i64 + 1;
        assert!((0..=most).contains(&ran.seconds), "{} of {most} seconds are billed", ran.seconds);
    }
    server.stop(&leftovers::machines(data.path())).await;
}
