//! The pool on the fake engine: claims, refills, budget, failures, and nothing left behind.

use std::collections::HashSet;
use std::fs;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use rekindle::agent::{EnvVar, ExecuteRequest, Program};
use rekindle::config::{Recipe, TemplateName};
use rekindle::engine::fake::{FakeEngine, Fault};
use rekindle::engine::{Engine, Operation};
use rekindle::host::cgroup::{CgroupManager, CpuQuota};
use rekindle::pool::{
    ClaimError, ClaimRequest, Lease, Pool, PoolConfig, PoolStatus, PooledTemplate, Resource, Shortage,
    StartKind, Watermarks,
};
use rekindle::store::{Artifact, Store};
use rekindle::vm::{Identity, TemplateSource, VmHost, VmHostConfig, VmState};
use rekindle_fake_guest::{Guests, Manner};

const SOON: Duration = Duration::from_secs(60);
/// Memory of a machine of the test's templates.
const MIB: u64 = 64;

/// A host with a fake engine.
struct Place {
    dir: tempfile::TempDir,
    engine: FakeEngine,
    guests: Guests,
    host: Arc<VmHost>,
}

impl Place {
    fn new() -> Self {
        let dir = tempfile::tempdir().expect("a directory");
        let guests = Guests::default();
        let engine = FakeEngine::new(guests.handler());
        let config = VmHostConfig {
            engine: Arc::new(engine.clone()) as Arc<dyn Engine>,
            cgroups: CgroupManager::none("tests of the pool need none"),
            require_limits: false,
            data_dir: dir.path().join("data"),
            users: None,
        };
        let host = Arc::new(VmHost::open(config).expect("a host"));
        Self { dir, engine, guests, host }
    }

    /// A built template.
    async fn template(&self, name: &str, low: u32, high: u32, prespawned: u32) -> PooledTemplate {
        let store = Store::open(&self.dir.path().join("data")).expect("a store");
        let artifact = |file: String| {
            let path = self.dir.path().join(&file);
            fs::write(&path, file).expect("written");
            Artifact { path, sha256: "0".repeat(64) }
        };
        let (kernel, image) = (artifact(format!("{name}.kernel")), artifact(format!("{name}.image")));
        let text = format!(
            "description = \"a test\"\nimage = \"tiny\"\nmemory_mib = {MIB}\nscratch_mib = 16\nvcpus = 1\n"
        );
        let name: TemplateName = name.parse().expect("a name");
        let source = TemplateSource { recipe: Recipe::parse(&name, &text).expect("a recipe"), kernel, image };
        let built = source.build(&self.host, &store, &|_| {}).await.expect("built");
        let parked = Watermarks { low, high };
        PooledTemplate { source, snapshot: Arc::new(built.snapshot), parked, prespawned }
    }

    fn pool(&self, templates: Vec<PooledTemplate>, config: PoolConfig) -> Pool {
        Pool::start(Arc::clone(&self.host), templates, config)
    }

    /// Directories of machines.
    fn machines(&self) -> Vec<PathBuf> {
        let list = |dir: &Path| -> Vec<PathBuf> {
            let entries = fs::read_dir(dir).into_iter().flatten().flatten();
            entries.map(|entry| entry.path()).filter(|path| path.is_dir()).collect()
        };
        list(&self.dir.path().join("data/run")).iter().flat_map(|instance| list(instance)).collect()
    }

    async fn until_machines(&self, count: usize) {
        let there = async {
            while self.machines().len() != count {
                tokio::time::sleep(Duration::from_millis(5)).await;
            }
        };
        tokio::time::timeout(SOON, there).await.unwrap_or_else(|_| panic!("{:?}", self.machines()));
    }
}

/// Room for so many machines.
fn room(machines: u64) -> PoolConfig {
    PoolConfig { first_backoff: Duration::from_millis(20), ..PoolConfig::new(MIB * machines, 1_000_000) }
}

async fn until(pool: &Pool, what: &str, reached: impl Fn(&PoolStatus) -> bool) -> PoolStatus {
    let mut status = pool.watch();
    let status = tokio::time::timeout(SOON, status.wait_for(|status| reached(status))).await;
    match status {
        Ok(status) => status.expect("the pool lives").clone(),
        Err(_) => panic!("{what}: {:?}", pool.status()),
    }
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
    let place = Place::new();
    let pool = place.pool(vec![place.template("tiny", 2, 2, 0).await], room(8));
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
    assert_eq!(status.memory_mib.used, 3 * MIB);
    assert_eq!(status.cpu_millis.used, 500);
    give_back(lease).await;
    until(&pool, "returned", |status| status.memory_mib.used == 2 * MIB && status.cpu_millis.used == 0).await;
    pool.drain().await;
    assert!(place.machines().is_empty(), "{:?}", place.machines());
}

#[tokio::test]
async fn a_claimed_machine_has_a_head_start_where_claims_come_one_at_a_time() {
    let place = Place::new();
    let config = PoolConfig { head_start: Duration::from_secs(3600), ..room(8) };
    let pool = place.pool(vec![place.template("tiny", 2, 2, 0).await], config);
    until_parked(&pool, 2).await;
    let levels = |parked, filling| {
        move |status: &PoolStatus| {
            (status.templates[0].parked, status.templates[0].filling) == (parked, filling)
        }
    };
    let first = pool.claim(ask("tiny")).await.expect("a machine");
    until(&pool, "its successor waits", levels(1, 1)).await;
    assert_eq!(place.machines().len(), 2, "the claimed one and the one that is left");
    let second = pool.claim(ask("tiny")).await.expect("a machine");
    assert_eq!([first.kind, second.kind], [StartKind::Parked; 2]);
    until(&pool, "another claim so soon, and one was made at once", levels(1, 1)).await;
    assert_eq!(place.machines().len(), 3);
    // What waits to be made does not hold up the end.
    pool.drain().await;
    give_back(first).await;
    give_back(second).await;
    place.until_machines(0).await;
}

#[tokio::test]
async fn no_head_start_leaves_the_next_caller_with_nothing() {
    let place = Place::new();
    let config = PoolConfig { head_start: Duration::from_secs(3600), ..room(8) };
    let pool = place.pool(vec![place.template("tiny", 1, 1, 0).await], config);
    until_parked(&pool, 1).await;
    let lease = pool.claim(ask("tiny")).await.expect("a machine");
    until_parked(&pool, 1).await;
    pool.drain().await;
    give_back(lease).await;
    place.until_machines(0).await;
}

#[tokio::test]
async fn with_nothing_made_ahead_a_machine_is_restored_and_a_waiting_monitor_is_loaded() {
    let place = Place::new();
    let templates = vec![place.template("plain", 0, 0, 0).await, place.template("quick", 0, 0, 1).await];
    let pool = place.pool(templates, room(8));
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
    assert!(place.machines().is_empty(), "{:?}", place.machines());
}

#[tokio::test]
async fn a_waiting_monitor_that_cannot_load_is_replaced_by_a_fresh_machine_once() {
    let place = Place::new();
    let pool = place.pool(vec![place.template("quick", 0, 0, 1).await], room(8));
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
    assert!(place.machines().is_empty(), "{:?}", place.machines());
}

#[tokio::test]
async fn a_parked_machine_that_dies_is_noticed_and_replaced() {
    let place = Place::new();
    let pool = place.pool(vec![place.template("tiny", 1, 1, 0).await], room(8));
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
    let place = Place::new();
    let template = place.template("tiny", 1, 1, 0).await;
    place.guests.behave(Manner { refuses_renewal: true, ..Manner::default() });
    let pool = place.pool(vec![template], room(8));
    until(&pool, "failed", |status| status.templates[0].start_failures > 0).await;
    let lease = pool.claim(ask("tiny")).await.expect("a machine");
    assert_eq!(lease.kind, StartKind::Restored);
    give_back(lease).await;
    pool.drain().await;
    assert!(place.machines().is_empty(), "{:?}", place.machines());
}

#[tokio::test]
async fn a_template_that_cannot_be_restored_rests_longer_and_longer() {
    let place = Place::new();
    let template = place.template("tiny", 1, 1, 0).await;
    for _ in 0..1_000 {
        place.engine.inject(Operation::Prepare, Fault::Fail("ordered".into()));
    }
    let began = std::time::Instant::now();
    let pool = place.pool(vec![template], room(8));
    until(&pool, "failed", |status| status.templates[0].start_failures == 5).await;
    // It rested 20, 40, 80 and 160 milliseconds before the fifth try.
    assert!(began.elapsed() >= Duration::from_millis(300), "{:?}", began.elapsed());
    pool.drain().await;
    assert!(place.machines().is_empty(), "{:?}", place.machines());
}

#[tokio::test]
async fn a_claim_without_room_waits_for_its_turn_or_is_told_why_not() {
    let place = Place::new();
    let config = PoolConfig { max_queued: 1, ..room(1) };
    let pool = place.pool(vec![place.template("tiny", 0, 0, 0).await], config);
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
    assert_eq!(pool.status().memory_mib.used, MIB);
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
    let place = Place::new();
    let pool = place.pool(vec![place.template("tiny", 0, 0, 0).await], room(1));
    let loads = || place.engine.log().iter().filter(|operation| **operation == Operation::Load).count();
    let before = loads();
    place.engine.inject(Operation::Load, Fault::Hang);
    let half_made = tokio::spawn({
        let pool = pool.clone();
        async move { pool.claim(ask("tiny")).await.map(drop) }
    });
    // Its directory is there long before it hangs, and the fault must be its own.
    let hanging = async {
        while loads() == before {
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    };
    tokio::time::timeout(SOON, hanging).await.expect("the load began");
    let queued = tokio::spawn({
        let pool = pool.clone();
        async move { pool.claim(ask("tiny")).await.map(drop) }
    });
    until(&pool, "queued", |status| status.queued == 1).await;
    queued.abort();
    until(&pool, "given up", |status| status.queued == 0).await;
    half_made.abort();
    until(&pool, "returned", |status| status.memory_mib.used == 0 && status.cpu_millis.used == 0).await;
    place.until_machines(0).await;
    let lease = pool.claim(ask("tiny")).await.expect("there is room again");
    give_back(lease).await;
}

#[tokio::test]
async fn parked_machines_of_another_template_give_way() {
    let place = Place::new();
    let templates = vec![place.template("tiny", 2, 2, 0).await, place.template("other", 0, 0, 0).await];
    let pool = place.pool(templates, room(2));
    until_parked(&pool, 2).await;
    let lease = pool.claim(ask("other")).await.expect("room is made");
    assert_eq!(place.machines().len(), 2, "the evicted one was gone before the new one came");
    assert_eq!(pool.status().memory_mib.used, 2 * MIB);
    give_back(lease).await;
    until_parked(&pool, 2).await;
    pool.drain().await;
}

#[tokio::test]
async fn many_claims_at_once_share_little_room_and_no_machine_is_handed_out_twice() {
    let place = Place::new();
    let pool = place.pool(vec![place.template("tiny", 2, 3, 1).await], room(6));
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
    let status = until(&pool, "returned", |status| status.cpu_millis.used == 0).await;
    let counts = &status.templates[0];
    assert_eq!(counts.claims_parked + counts.claims_prespawned + counts.claims_restored, 50);
    pool.drain().await;
    assert!(place.machines().is_empty(), "{:?}", place.machines());
    assert_eq!(pool.status().memory_mib.used, 0);
}

#[tokio::test]
async fn a_drained_pool_holds_nothing_and_takes_no_claims() {
    let place = Place::new();
    let pool = place.pool(vec![place.template("tiny", 1, 1, 1).await], room(1));
    let lease = pool.claim(ask("tiny")).await.expect("a machine");
    let waiting = tokio::spawn({
        let pool = pool.clone();
        async move { pool.claim(ask("tiny")).await.map(drop) }
    });
    until(&pool, "queued", |status| status.queued == 1).await;
    tokio::time::timeout(SOON, pool.drain()).await.expect("drained");
    let refused = waiting.await.expect("no panic").expect_err("nobody is served any more");
    assert!(matches!(refused, ClaimError::ShuttingDown), "{refused}");
    let late = pool.claim(ask("tiny")).await.expect_err("too late");
    assert!(matches!(late, ClaimError::ShuttingDown), "{late}");
    assert_eq!(place.machines().len(), 1, "the lease is its holder's");
    assert_eq!(output(&lease, "echo still here").await, "still here\n");
    give_back(lease).await;
    assert!(place.machines().is_empty(), "{:?}", place.machines());
    tokio::time::timeout(SOON, pool.drain()).await.expect("drained again");
}

#[tokio::test]
async fn a_pool_nobody_holds_ends_what_it_made() {
    let place = Place::new();
    let pool = place.pool(vec![place.template("tiny", 2, 2, 1).await], room(8));
    until_parked(&pool, 2).await;
    drop(pool);
    place.until_machines(0).await;
}
