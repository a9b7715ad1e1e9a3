//! The pool on the fake engine: claims, refills, budget, failures, and nothing left behind.

use std::collections::HashSet;
use std::sync::Arc;
use std::time::Duration;

use rekindle::agent::{EnvVar, ExecuteRequest, Program};
use rekindle::engine::Operation;
use rekindle::engine::fake::Fault;
use rekindle::host::cgroup::CpuQuota;
use rekindle::pool::{
    ClaimError, ClaimRequest, Lease, Pool, PoolConfig, PoolStatus, PooledTemplate, Resource, Shortage,
    StartKind,
};
use rekindle::vm::{Identity, VmState};
use rekindle_fake_guest::Manner;
use rekindle_fake_host::{FakeHost, MEMORY_MIB};
use rekindle_test_support::wait::{self, in_time};

const SOON: Duration = Duration::from_secs(60);

fn start(place: &FakeHost, templates: Vec<PooledTemplate>, config: PoolConfig) -> Pool {
    Pool::start(Arc::clone(&place.host), templates, config)
}

/// Room for so many machines.
fn room(machines: u64) -> PoolConfig {
    PoolConfig {
        first_backoff: Duration::from_millis(20),
        ..PoolConfig::new(MEMORY_MIB * machines, 1_000_000)
    }
}

async fn until(pool: &Pool, what: &str, reached: impl Fn(&PoolStatus) -> bool) -> PoolStatus {
    let mut status = pool.watch();
    in_time(what, status.wait_for(|status| reached(status))).await.expect("the pool lives").clone()
}

async fn until_parked(pool: &Pool, parked: u32) {
    let full = |status: &PoolStatus| status.templates[0].parked == parked && status.templates[0].filling == 0;
    until(pool, "parked", full).await;
}

fn ask(template: &str) -> ClaimRequest {
    ClaimRequest {
        template: template.parse().expect("a name"),
        tenant: Some("tester".into()),
        cpu: None,
        identity: Identity::default(),
        wait: SOON,
    }
}

async fn give_back(lease: Lease) {
    lease.vm.end().await;
}

async fn output(lease: &Lease, line: &str) -> String {
    let program = Some(Program::Shell(line.into()));
    let request = ExecuteRequest { program, ..ExecuteRequest::default() };
    lease.vm.agent().run(request).await.expect("it ran").stdout.text
}

fn stages(lease: &Lease) -> Vec<&'static str> {
    lease.timings.stages.iter().map(|stage| stage.name).collect()
}

#[tokio::test]
async fn a_parked_machine_becomes_its_callers_and_is_replaced() {
    let place = FakeHost::new();
    let pool = start(&place, vec![place.template("tiny", 2, 2, 0).await], room(8));
    until_parked(&pool, 2).await;
    let before = place.guests.all().len();
    let env = vec![EnvVar { name: "WHO".into(), value: "me".into() }];
    let request = ClaimRequest {
        identity: Identity { env, ..Identity::default() },
        cpu: Some(CpuQuota { millis: 500 }),
        ..ask("tiny")
    };
    let lease = pool.claim(request).await.expect("a machine");
    assert_eq!(lease.kind, StartKind::Parked);
    assert_eq!(stages(&lease), ["claim", "renew"]);
    assert_eq!(output(&lease, "env WHO").await, "me\n");
    let guest = place.guests.all().into_iter().find(|guest| guest.executed().contains(&"env WHO".into()));
    let guest = guest.expect("the guest that ran it");
    assert!(place.guests.all().len() >= before);
    assert_eq!(guest.executed(), ["true", "env WHO"], "it was primed before it was handed out");
    let restores = guest.restores();
    let names: HashSet<_> = restores.iter().map(|restore| restore.hostname.clone()).collect();
    assert_eq!(names.len(), restores.len(), "every renewal brings an identity of its own");
    assert!(!restores[0].renew && restores.last().expect("renewed").renew);
    until_parked(&pool, 2).await;
    let status = pool.status();
    assert_eq!(status.templates[0].claims_parked, 1);
    assert_eq!(status.memory_mib.used, 3 * MEMORY_MIB);
    assert_eq!(status.milli_cpus.used, 500);
    give_back(lease).await;
    until(&pool, "returned", |status| {
        status.memory_mib.used == 2 * MEMORY_MIB && status.milli_cpus.used == 0
    })
    .await;
    pool.drain().await;
    assert!(place.remains().is_empty(), "{:?}", place.remains());
}

#[tokio::test]
async fn a_claimed_machine_has_a_head_start_where_claims_come_one_at_a_time() {
    let place = FakeHost::new();
    let config = PoolConfig { head_start: Duration::from_secs(3600), ..room(8) };
    let pool = start(&place, vec![place.template("tiny", 2, 2, 0).await], config);
    until_parked(&pool, 2).await;
    let first = pool.claim(ask("tiny")).await.expect("a machine");
    let claimed = |status: &PoolStatus| status.milli_cpus.used > 0;
    let status = until(&pool, "claimed", claimed).await;
    assert_eq!((status.templates[0].parked, status.templates[0].filling), (1, 0), "its successor waits");
    assert_eq!(place.remains().len(), 2, "the claimed one and the one that is left");
    let second = pool.claim(ask("tiny")).await.expect("a machine");
    assert_eq!([first.kind, second.kind], [StartKind::Parked; 2]);
    // Another claim so soon, and two are made at once.
    until_parked(&pool, 2).await;
    assert_eq!(place.remains().len(), 4);
    pool.drain().await;
    give_back(first).await;
    give_back(second).await;
    place.until_remain(0).await;
}

#[tokio::test]
async fn no_head_start_leaves_the_next_caller_with_nothing() {
    let place = FakeHost::new();
    let config = PoolConfig { head_start: Duration::from_secs(3600), ..room(8) };
    let pool = start(&place, vec![place.template("tiny", 1, 1, 0).await], config);
    until_parked(&pool, 1).await;
    let lease = pool.claim(ask("tiny")).await.expect("a machine");
    until_parked(&pool, 1).await;
    pool.drain().await;
    give_back(lease).await;
    place.until_remain(0).await;
}

#[tokio::test]
async fn with_nothing_made_ahead_a_machine_is_restored_and_a_waiting_monitor_is_loaded() {
    let place = FakeHost::new();
    let templates = vec![place.template("plain", 0, 0, 0).await, place.template("quick", 0, 0, 1).await];
    let pool = start(&place, templates, room(8));
    until(&pool, "prespawned", |status| status.templates[1].prespawned == 1).await;
    let restored = pool.claim(ask("plain")).await.expect("a machine");
    assert_eq!(restored.kind, StartKind::Restored);
    assert_eq!(stages(&restored)[..2], ["claim", "reserve"]);
    let loaded = pool.claim(ask("quick")).await.expect("a machine");
    assert_eq!(loaded.kind, StartKind::Prespawned);
    assert_eq!(stages(&loaded), ["claim", "load", "connect", "gate"]);
    assert_eq!(output(&loaded, "echo here").await, "here\n");
    give_back(restored).await;
    give_back(loaded).await;
    pool.drain().await;
    assert!(place.remains().is_empty(), "{:?}", place.remains());
}

#[tokio::test]
async fn a_waiting_monitor_that_cannot_load_is_replaced_by_a_fresh_machine_once() {
    let place = FakeHost::new();
    let pool = start(&place, vec![place.template("quick", 0, 0, 1).await], room(8));
    until(&pool, "prespawned", |status| status.templates[0].prespawned == 1).await;
    place.engine.inject(Operation::Load, Fault::Die);
    let lease = pool.claim(ask("quick")).await.expect("a machine all the same");
    assert_eq!(lease.kind, StartKind::Restored);
    until(&pool, "counted", |status| status.templates[0].start_failures == 1).await;
    give_back(lease).await;
    until(&pool, "prespawned", |status| status.templates[0].prespawned == 1).await;
    place.engine.inject(Operation::Load, Fault::Die);
    place.engine.inject(Operation::Load, Fault::Fail("again".into()));
    let error = pool.claim(ask("quick")).await.expect_err("once, not twice");
    assert!(matches!(error, ClaimError::Start(_)), "{error}");
    until(&pool, "returned", |status| status.memory_mib.used == 0).await;
    pool.drain().await;
    assert!(place.remains().is_empty(), "{:?}", place.remains());
}

#[tokio::test]
async fn a_parked_machine_that_dies_is_noticed_and_replaced() {
    let place = FakeHost::new();
    let pool = start(&place, vec![place.template("tiny", 1, 1, 0).await], room(8));
    until_parked(&pool, 1).await;
    place.engine.machines().last().expect("a machine").crash();
    until(&pool, "noticed", |status| status.templates[0].start_failures == 1).await;
    until_parked(&pool, 1).await;
    let lease = pool.claim(ask("tiny")).await.expect("a machine");
    assert_eq!((lease.kind, lease.vm.state()), (StartKind::Parked, VmState::Running));
    give_back(lease).await;
    pool.drain().await;
}

#[tokio::test]
async fn a_machine_that_cannot_be_renewed_is_not_parked_and_claims_are_served_all_the_same() {
    let place = FakeHost::new();
    let template = place.template("tiny", 1, 1, 0).await;
    place.guests.behave(Manner { refuses_renewal: true, ..Manner::default() });
    let pool = start(&place, vec![template], room(8));
    until(&pool, "failed", |status| status.templates[0].start_failures > 0).await;
    let lease = pool.claim(ask("tiny")).await.expect("a machine");
    assert_eq!(lease.kind, StartKind::Restored);
    give_back(lease).await;
    pool.drain().await;
    assert!(place.remains().is_empty(), "{:?}", place.remains());
}

#[tokio::test]
async fn a_template_that_cannot_be_restored_rests_longer_and_longer() {
    let place = FakeHost::new();
    let template = place.template("tiny", 1, 1, 0).await;
    for _ in 0..1_000 {
        place.engine.inject(Operation::Prespawn, Fault::Fail("ordered".into()));
    }
    let began = std::time::Instant::now();
    let pool = start(&place, vec![template], room(8));
    until(&pool, "failed", |status| status.templates[0].start_failures == 5).await;
    // It rested 20, 40, 80 and 160 milliseconds before the fifth try.
    assert!(began.elapsed() >= Duration::from_millis(300), "{:?}", began.elapsed());
    pool.drain().await;
    assert!(place.remains().is_empty(), "{:?}", place.remains());
}

#[tokio::test]
async fn a_claim_without_room_waits_for_its_turn_or_is_told_why_not() {
    let place = FakeHost::new();
    let config = PoolConfig { max_queued: 1, ..room(1) };
    let pool = start(&place, vec![place.template("tiny", 0, 0, 0).await], config);
    let first = pool.claim(ask("tiny")).await.expect("a machine");
    let at_once = pool.claim(ClaimRequest { wait: Duration::ZERO, ..ask("tiny") }).await;
    match at_once.expect_err("there is no room") {
        ClaimError::Full { reason: Shortage::Memory, retry_after } => assert!(retry_after > Duration::ZERO),
        other => panic!("{other}"),
    }
    let second = tokio::spawn({
        let pool = pool.clone();
        async move { pool.claim(ask("tiny")).await }
    });
    until(&pool, "queued", |status| status.queued == 1).await;
    let third = pool.claim(ask("tiny")).await.expect_err("the queue is full");
    assert!(matches!(third, ClaimError::QueueFull { .. }), "{third}");
    give_back(first).await;
    let second = second.await.expect("no panic").expect("a machine");
    assert!(second.queued > Duration::ZERO);
    assert_eq!(pool.status().memory_mib.used, MEMORY_MIB);
    give_back(second).await;
    let unknown = pool.claim(ask("other")).await.expect_err("no such template");
    assert!(matches!(unknown, ClaimError::UnknownTemplate { .. }), "{unknown}");
    let cpu = Some(CpuQuota { millis: 1_000_001 });
    match pool.claim(ClaimRequest { cpu, ..ask("tiny") }).await.expect_err("there is never so much") {
        ClaimError::TooLarge { resource: Resource::Cpu, asked: 1_000_001, total: 1_000_000 } => {}
        other => panic!("{other}"),
    }
}

#[tokio::test]
async fn a_claim_that_is_dropped_gives_up_its_place_or_its_half_made_machine() {
    let place = FakeHost::new();
    let pool = start(&place, vec![place.template("tiny", 0, 0, 0).await], room(1));
    let before = place.loads();
    place.engine.inject(Operation::Load, Fault::Hang);
    let half_made = tokio::spawn({
        let pool = pool.clone();
        async move { pool.claim(ask("tiny")).await.map(drop) }
    });
    // Its directory is there long before it hangs, and the fault must be its own.
    wait::until("the load began", || place.loads() > before).await;
    let queued = tokio::spawn({
        let pool = pool.clone();
        async move { pool.claim(ask("tiny")).await.map(drop) }
    });
    until(&pool, "queued", |status| status.queued == 1).await;
    queued.abort();
    until(&pool, "given up", |status| status.queued == 0).await;
    half_made.abort();
    until(&pool, "returned", |status| status.memory_mib.used == 0 && status.milli_cpus.used == 0).await;
    place.until_remain(0).await;
    let lease = pool.claim(ask("tiny")).await.expect("there is room again");
    give_back(lease).await;
}

#[tokio::test]
async fn parked_machines_of_another_template_give_way() {
    let place = FakeHost::new();
    let templates = vec![place.template("tiny", 2, 2, 0).await, place.template("other", 0, 0, 0).await];
    let pool = start(&place, templates, room(2));
    until_parked(&pool, 2).await;
    let lease = pool.claim(ask("other")).await.expect("room is made");
    assert_eq!(place.remains().len(), 2, "the evicted one was gone before the new one came");
    assert_eq!(pool.status().memory_mib.used, 2 * MEMORY_MIB);
    give_back(lease).await;
    until_parked(&pool, 2).await;
    pool.drain().await;
}

#[tokio::test]
async fn many_claims_at_once_share_little_room_and_no_machine_is_handed_out_twice() {
    let place = FakeHost::new();
    let pool = start(&place, vec![place.template("tiny", 2, 3, 1).await], room(6));
    let claims = (0..50).map(|number| {
        let pool = pool.clone();
        tokio::spawn(async move {
            let request = ClaimRequest { tenant: Some(format!("tenant-{}", number % 5)), ..ask("tiny") };
            let lease = pool.claim(request).await.expect("a machine");
            assert_eq!(output(&lease, &format!("write mine {number}; cat mine")).await, number.to_string());
            let memory = pool.status().memory_mib;
            assert!(memory.used <= memory.total, "{memory:?}");
            let id = lease.vm.id();
            give_back(lease).await;
            id
        })
    });
    let claims: Vec<_> = claims.collect();
    let mut seen = HashSet::new();
    for claim in claims {
        assert!(seen.insert(claim.await.expect("no panic")), "a machine was handed out twice");
    }
    until_parked(&pool, 3).await;
    let status = until(&pool, "returned", |status| status.milli_cpus.used == 0).await;
    let counts = &status.templates[0];
    assert_eq!(counts.claims_parked + counts.claims_prespawned + counts.claims_restored, 50);
    pool.drain().await;
    assert!(place.remains().is_empty(), "{:?}", place.remains());
    assert_eq!(pool.status().memory_mib.used, 0);
}

#[tokio::test]
async fn a_drained_pool_holds_nothing_and_takes_no_claims() {
    let place = FakeHost::new();
    let pool = start(&place, vec![place.template("tiny", 1, 1, 1).await], room(1));
    let lease = pool.claim(ask("tiny")).await.expect("a machine");
    let waiting = tokio::spawn({
        let pool = pool.clone();
        async move { pool.claim(ask("tiny")).await.map(drop) }
    });
    until(&pool, "queued", |status| status.queued == 1).await;
    in_time("drained", pool.drain()).await;
    let refused = waiting.await.expect("no panic").expect_err("nobody is served any more");
    assert!(matches!(refused, ClaimError::ShuttingDown), "{refused}");
    let late = pool.claim(ask("tiny")).await.expect_err("too late");
    assert!(matches!(late, ClaimError::ShuttingDown), "{late}");
    assert_eq!(place.remains().len(), 1, "the lease is its holder's");
    assert_eq!(output(&lease, "echo still here").await, "still here\n");
    give_back(lease).await;
    assert!(place.remains().is_empty(), "{:?}", place.remains());
    in_time("drained again", pool.drain()).await;
}

#[tokio::test]
async fn a_pool_nobody_holds_ends_what_it_made() {
    let place = FakeHost::new();
    let pool = start(&place, vec![place.template("tiny", 2, 2, 1).await], room(8));
    until_parked(&pool, 2).await;
    drop(pool);
    place.until_remain(0).await;
}
