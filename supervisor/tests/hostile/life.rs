//! The life of sandboxes against a model: random schedules of calls, clocks, crashes and failures. After every step each
//! sandbox is where the model has it, and pool, quotas, machines and directories add up.
//!
//! `REKINDLE_SCHEDULES=1000` makes them a thousand; a failure names its seed.

use std::time::Duration;

use bytes::Bytes;
use rekindle::engine::Operation;
use rekindle::engine::fake::{FakeControl, Fault};
use rekindle::service::{
    Caller, CreateSpec, EndReason, ErrorKind, Quotas, SandboxId, SandboxState, Scopes, ServiceError,
};
use rekindle_fake_guest::Guest;
use rekindle_fake_host::MEMORY_MIB;
use rekindle_test_support::random::{Random, times};
use rekindle_test_support::wait::until;
use tokio::time::{Instant, advance, timeout};

use crate::place::{MACHINES, Place, alive, alone, shell};

/// Schedules in `cargo test`.
const SCHEDULES: u64 = 25;
const STEPS: u64 = 60;
/// What one tenant may have; the host has room for fewer than all of them together.
const QUOTA: u64 = 5;
const TENANTS: [&str; 2] = ["ada", "bob"];
/// Clocks are compared this exactly: calls take time, too.
const ABOUT: Duration = Duration::from_secs(30);

/// A sandbox as the model has it.
#[derive(Debug)]
struct Model {
    id: SandboxId,
    tenant: usize,
    state: Life,
    /// What it has left to live while it runs, and since when it does.
    ttl: Duration,
    since: Instant,
    machine: FakeControl,
    guest: Guest,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Life {
    Running,
    Paused,
    Ended(EndReason),
}

impl Model {
    fn alive(&self) -> bool {
        !matches!(self.state, Life::Ended(_))
    }

    /// What it has left now.
    fn left(&self) -> Duration {
        match self.state {
            Life::Running => self.ttl.saturating_sub(self.since.elapsed()),
            _ => self.ttl,
        }
    }

    /// It goes on or stands still from now on.
    fn go(&mut self, state: Life) {
        self.ttl = self.left();
        self.since = Instant::now();
        self.state = state;
    }

    fn end(&mut self, reason: EndReason) {
        if self.alive() {
            self.go(Life::Ended(reason));
        }
    }
}

struct World {
    place: Place,
    callers: Vec<Caller>,
    sandboxes: Vec<Model>,
    random: Random,
    seed: u64,
}

impl World {
    async fn new(seed: u64) -> Self {
        let caller = |tenant: &str| Caller {
            tenant: tenant.into(),
            token: Some(tenant.into()),
            scopes: Scopes { admin: false, ..Scopes::ALL },
            quotas: Quotas { sandboxes: Some(QUOTA), ..Quotas::default() },
            ..Caller::local()
        };
        let callers = TENANTS.iter().map(|tenant| caller(tenant)).collect();
        let place = Place::new(0, 0).await;
        Self { place, callers, sandboxes: Vec::new(), random: Random::new(seed), seed }
    }

    fn living(&self) -> usize {
        self.sandboxes.iter().filter(|sandbox| sandbox.alive()).count()
    }

    async fn step(&mut self) {
        let seed = self.seed;
        if self.sandboxes.is_empty() || self.random.one_in(4) {
            return self.create().await;
        }
        let at = self.random.below(self.sandboxes.len() as u64) as usize;
        let Place { service, fake, .. } = &self.place;
        let sandbox = &mut self.sandboxes[at];
        let (id, caller) = (sandbox.id.as_str(), &self.callers[sandbox.tenant]);
        match self.random.below(12) {
            0 | 1 => {
                let ran = service.execute(caller, id, shell("sleep 1000; echo ok"), Bytes::new(), "").await;
                match sandbox.state {
                    Life::Running => assert_eq!(ran.expect("it runs").finished.stdout.text, "ok\n"),
                    Life::Paused => check(ran, ErrorKind::SandboxPaused, seed),
                    Life::Ended(_) => check(ran, ErrorKind::SandboxEnded, seed),
                }
            }
            2 | 3 => {
                let paused = service.pause(caller, id).await;
                match sandbox.state {
                    Life::Running => {
                        paused.expect("paused");
                        sandbox.go(Life::Paused);
                    }
                    Life::Paused => drop(paused.expect("it is paused")),
                    Life::Ended(_) => check(paused, ErrorKind::SandboxEnded, seed),
                }
            }
            4 | 5 => {
                let resumed = service.resume(caller, id).await;
                match sandbox.state {
                    Life::Paused => {
                        resumed.expect("resumed");
                        sandbox.go(Life::Running);
                    }
                    Life::Running => drop(resumed.expect("it runs")),
                    Life::Ended(_) => check(resumed, ErrorKind::SandboxEnded, seed),
                }
            }
            6 => {
                service.destroy(caller, id).await.expect("destroyed, however often");
                sandbox.end(EndReason::Destroyed);
            }
            // The other tenant knows nothing of it.
            7 => {
                let other = &self.callers[1 - sandbox.tenant];
                check(service.get(other, id).await, ErrorKind::UnknownSandbox, seed);
                check(service.pause(other, id).await, ErrorKind::UnknownSandbox, seed);
                check(service.destroy(other, id).await, ErrorKind::UnknownSandbox, seed);
            }
            8 => {
                sandbox.machine.crash();
                sandbox.end(EndReason::VmLost);
            }
            9 => {
                sandbox.guest.crash();
                sandbox.end(EndReason::AgentLost);
            }
            // A transition that fails leaves it where it was; one that cannot be taken back ends it.
            10 => {
                let (there, back) = match sandbox.state {
                    Life::Running => (Operation::Pause, Operation::Resume),
                    Life::Paused => (Operation::Resume, Operation::Pause),
                    Life::Ended(_) => return,
                };
                fake.engine.inject(there, Fault::Fail("ordered".into()));
                let stuck = self.random.one_in(3);
                if stuck {
                    fake.engine.inject(back, Fault::Fail("ordered".into()));
                }
                let changed = match there {
                    Operation::Pause => service.pause(caller, id).await,
                    _ => service.resume(caller, id).await,
                };
                changed.expect_err("it fails");
                if stuck {
                    sandbox.end(EndReason::VmLost);
                }
            }
            _ => {
                let ttl = Duration::from_secs(100 + self.random.below(1_000));
                match service.set_timeout(caller, id, Some(ttl), None, None) {
                    Ok(_) => {
                        assert!(sandbox.alive(), "seed {seed}: an ended one has no clock");
                        (sandbox.ttl, sandbox.since) = (ttl, Instant::now());
                    }
                    // The longest life counts from the creation on.
                    Err(error) if error.kind() == ErrorKind::LimitExceeded => {}
                    Err(error) => assert!(!sandbox.alive(), "seed {seed}: {error}"),
                }
            }
        }
    }

    async fn create(&mut self) {
        let tenant = self.random.below(TENANTS.len() as u64) as usize;
        let own = self.sandboxes.iter().filter(|sandbox| sandbox.alive() && sandbox.tenant == tenant).count();
        let ttl = Duration::from_secs(100 + self.random.below(2_000));
        let spec =
            CreateSpec { ttl: Some(ttl), queue: Some(Duration::from_secs(1)), ..CreateSpec::default() };
        let fails = self.random.one_in(6);
        let room = own < QUOTA as usize && self.living() < MACHINES as usize;
        if fails && room {
            let operation = self.random.pick(&[Operation::Prespawn, Operation::Load, Operation::Dial]);
            let fault = self.random.pick(&[Fault::Die, Fault::Fail("ordered".into())]);
            self.place.fake.engine.inject(operation, fault);
        }
        let made = self.place.service.create(&self.callers[tenant], spec, "").await;
        if own >= QUOTA as usize {
            return check(made, ErrorKind::QuotaExceeded, self.seed);
        }
        if !room {
            return check(made, ErrorKind::HostFull, self.seed);
        }
        if fails {
            return check(made, ErrorKind::StartFailed, self.seed);
        }
        let id = made.unwrap_or_else(|error| panic!("seed {}: {error}", self.seed)).id;
        let machine = self.place.fake.engine.machines().pop().expect("a machine");
        let guest = self.place.fake.guests.all().pop().expect("a guest");
        let (state, since) = (Life::Running, Instant::now());
        self.sandboxes.push(Model { id, tenant, state, ttl, since, machine, guest });
    }

    /// Time passes, for nobody or until somebody's is over.
    async fn time(&mut self) {
        advance(Duration::from_secs(self.random.below(400))).await;
    }

    /// Whether everything is as the model has it. What is about to end may have ended.
    async fn compare(&mut self) {
        let seed = self.seed;
        for sandbox in &mut self.sandboxes {
            let left = sandbox.left();
            let caller = &self.callers[sandbox.tenant];
            if sandbox.state == Life::Running && left.is_zero() {
                sandbox.end(EndReason::Expired);
            }
            let service = &self.place.service;
            let expected = sandbox.state;
            let about_to_end = expected == Life::Running && left < ABOUT;
            let told = async {
                loop {
                    let view = service.get(caller, sandbox.id.as_str()).await.expect("it is known");
                    let life = match (view.state, view.end) {
                        (SandboxState::Running, None) => Life::Running,
                        (SandboxState::Paused, None) => Life::Paused,
                        (SandboxState::Ended, Some(end)) => Life::Ended(end.reason),
                        // On its way.
                        _ => Life::Ended(EndReason::Shutdown),
                    };
                    if life == expected || about_to_end && life == Life::Ended(EndReason::Expired) {
                        return life;
                    }
                    // What has an end coming is told of it before long; what has not, never gets there.
                    tokio::time::sleep(Duration::from_millis(10)).await;
                }
            };
            let told = timeout(Duration::from_secs(20), told).await;
            let told =
                told.unwrap_or_else(|_| panic!("seed {seed}: it never is as the model has it: {sandbox:?}"));
            if let Life::Ended(reason) = told {
                sandbox.end(reason);
            }
            assert_eq!(sandbox.machine.is_alive(), sandbox.alive(), "seed {seed}: {sandbox:?}");
            assert!(
                !sandbox.alive() || sandbox.machine.is_paused() == (sandbox.state == Life::Paused),
                "seed {seed}"
            );
        }
        let living = self.living();
        until(&format!("seed {seed}: {living} sandboxes are all there is"), || {
            let status = self.place.status();
            status.memory_mib.used == living as u64 * MEMORY_MIB
                && status.queued == 0
                && self.place.fake.remains().len() == living
                && self.place.fake.alive() == living
        })
        .await;
    }
}

/// A call that must fail like this.
#[track_caller]
fn check<T>(result: Result<T, ServiceError>, kind: ErrorKind, seed: u64) {
    match result {
        Ok(_) => panic!("seed {seed}: it must fail as {kind:?}"),
        Err(error) => assert_eq!(error.kind(), kind, "seed {seed}: {error}"),
    }
}

#[test]
fn sandboxes_and_the_pool_are_where_a_model_has_them_after_every_step_of_any_schedule() {
    alone(async || {
        let schedules = times("REKINDLE_SCHEDULES", SCHEDULES);
        let (mut ended, mut made) = (0, 0);
        for seed in 0..schedules {
            let mut world = World::new(seed).await;
            for _ in 0..STEPS {
                world.step().await;
                if world.random.one_in(4) {
                    world.time().await;
                }
                world.compare().await;
                alive();
            }
            made += world.sandboxes.len();
            ended += world.sandboxes.len() - world.living();
            world.place.service.shut_down(Duration::ZERO).await;
            world.place.at_rest(0, 0).await;
        }
        println!("{schedules} schedules of {STEPS} steps: {made} sandboxes, {ended} ended by themselves");
        assert!(ended > 0 && made > ended);
    });
}
