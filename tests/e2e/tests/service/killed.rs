//! The service killed with SIGKILL at random moments under load: the next one undoes what it left, and serves.
//!
//! `REKINDLE_KILLS` says how often; 5 unless told.

use std::collections::BTreeSet;
use std::path::Path;
use std::time::{Duration, Instant};

use rekindle_api::client::Client;
use rekindle_api::v1::{CreateSandboxRequest, DestroySandboxRequest, ExecuteRequest, HostUsageRequest};
use rekindle_e2e::cli::rekindle;
use rekindle_e2e::leftovers::{self, Leftovers};
use rekindle_e2e::server::Server;
use rekindle_test_support::wait::until;
use tokio::task::JoinSet;

use crate::calls::{create, destroy, output, python, shell};

/// How often, unless told.
const KILLS: u32 = 5;
/// Callers that keep the service busy.
const CALLERS: usize = 2;
/// The longest life a service gets from the moment it serves.
const LONGEST: Duration = Duration::from_millis(6_000);
/// The longest life of one that is not waited for, every so many times: it may die before it serves.
const EARLY: Duration = Duration::from_millis(600);
const EVERY: u32 = 5;
const POOL: &str = "pool.templates={ minimal = { parked_low = 1, parked_high = 2, prespawned = 1 } }";

fn kills() -> u32 {
    let told = std::env::var("REKINDLE_KILLS").ok();
    told.map_or(KILLS, |kills| kills.parse().expect("REKINDLE_KILLS is a number"))
}

/// A moment of a life, from its first instant to its longest.
fn moment(longest: Duration) -> Duration {
    let drawn = getrandom::u32().expect("random bytes");
    longest.mul_f64(f64::from(drawn) / f64::from(u32::MAX))
}

/// Creates, uses and destroys sandboxes until the service is gone. Says how many lives were whole.
async fn caller(mut client: Client) -> u32 {
    let mut whole = 0;
    loop {
        let Ok(created) = client.sandboxes.create(CreateSandboxRequest::default()).await else {
            return whole;
        };
        let sandbox = created.into_inner().id;
        let program = Some(shell("echo busy; head -c 100000 /dev/urandom > some"));
        let request = ExecuteRequest { sandbox: sandbox.clone(), program, ..ExecuteRequest::default() };
        let Ok(_) = client.sandboxes.execute(request).await else { return whole };
        let Ok(_) = client.sandboxes.destroy(DestroySandboxRequest { sandbox }).await else { return whole };
        whole += 1;
    }
}

/// What is left around a service that lives: its own processes and its own directory are not.
fn orphans(data: &Path, machines: &BTreeSet<String>, server: &Server) -> Leftovers {
    let instances = leftovers::supervisors(data);
    assert_eq!(instances.len(), 1, "one supervisor has a directory: {instances:?}");
    let mut found = leftovers::find(data, machines, &instances);
    let own = family(server.pid());
    found.processes.retain(|process| {
        let pid = process.split(':').next().and_then(|pid| pid.parse().ok());
        !pid.is_some_and(|pid: u32| own.contains(&pid))
    });
    found
}

/// A process and everything it started.
fn family(pid: u32) -> BTreeSet<u32> {
    let mut found = BTreeSet::from([pid]);
    let mut pending = vec![pid];
    while let Some(pid) = pending.pop() {
        let tasks = std::fs::read_dir(format!("/proc/{pid}/task")).into_iter().flatten().flatten();
        for task in tasks {
            let children = std::fs::read_to_string(task.path().join("children")).unwrap_or_default();
            for child in children.split_ascii_whitespace().filter_map(|child| child.parse().ok()) {
                if found.insert(child) {
                    pending.push(child);
                }
            }
        }
    }
    found
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_service_killed_at_random_moments_under_load_serves_again_and_nothing_is_orphaned() {
    let lab = lab!();
    let _alone = lab.alone().await;
    let data = lab.copy();
    let data = data.path();
    // Other tests may have made templates of their own.
    let snapshots = async || {
        let listed = rekindle(data, &["template", "ls", "--json"]).await.json();
        listed["snapshots"].as_array().map(Vec::len)
    };
    let before = snapshots().await;
    let (mut lives, mut machines_lost, mut ended_unheard) = (0, 0, 0);
    let began = Instant::now();
    let mut machines = BTreeSet::new();
    for number in 1..=kills() {
        let mut server = Server::launch(data, &[POOL]);
        if number % EVERY == 0 {
            tokio::time::sleep(moment(EARLY)).await;
            machines.extend(server.kill().await);
            continue;
        }
        server.ready().await;
        assert_eq!(orphans(data, &machines, &server), Leftovers::default(), "{}", server.log());
        let client = server.client().await;
        let mut callers = JoinSet::new();
        for _ in 0..CALLERS {
            callers.spawn(caller(client.clone()));
        }
        tokio::time::sleep(moment(LONGEST)).await;
        let lost = server.kill().await;
        machines_lost += lost.len();
        machines.extend(lost);
        lives += callers.join_all().await.iter().sum::<u32>();
        // An answer that the kill cut off may have been an end.
        ended_unheard += CALLERS as u64;
    }
    eprintln!(
        "{} kills in {:.1} s: {lives} whole lives, {machines_lost} machines lost, {} named in all",
        kills(),
        began.elapsed().as_secs_f64(),
        machines.len(),
    );
    assert!(machines_lost > 0, "some of the kills hit machines");

    let server = Server::start(data, &[POOL]).await;
    assert_eq!(orphans(data, &machines, &server), Leftovers::default(), "{}", server.log());
    let mut client = server.client().await;
    // Whatever a caller was told of as ended is accounted for, exactly once.
    let usage = client.host.usage(HostUsageRequest::default()).await.expect("sums").into_inner();
    let accounted: u64 = usage.tenants.iter().map(|tenant| tenant.sandboxes).sum();
    assert!(accounted >= lives.into() && accounted <= u64::from(lives) + ended_unheard, "{usage:?}: {lives}");
    let sandbox = create(&client).await;
    machines.extend(leftovers::machines(data));
    assert_eq!(output(&client, &sandbox.id, python("print(6 * 7)")).await, "42");
    destroy(&client, &sandbox.id).await;
    server.stop(&machines).await;

    // No snapshot has gone or come, and each is whole.
    assert_eq!(snapshots().await, before);
    let verified = rekindle(data, &["template", "verify"]).await;
    assert_eq!(verified.code, Some(0), "{verified:?}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_service_killed_while_it_builds_its_template_leaves_no_half_made_snapshot() {
    let lab = lab!();
    let _turn = lab.turn().await;
    let data = lab.empty_data();
    let data = data.path();
    let server = Server::launch(data, &[POOL]);
    until("it builds", || !leftovers::monitors(data).is_empty()).await;
    let machines = server.kill().await;
    assert_eq!(machines.len(), 1);
    let listed = rekindle(data, &["template", "ls", "--json"]).await.json();
    assert_eq!(listed["snapshots"].as_array().map(Vec::len), Some(0), "no half snapshot: {listed}");
    let next = rekindle(data, &["template", "rm", "--unused"]).await;
    assert_eq!(next.code, Some(0), "{next:?}");
    leftovers::find(data, &machines, &BTreeSet::new()).assert_none();
}
