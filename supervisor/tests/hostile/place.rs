//! A whole supervisor on the fake engine without a server in front, and what shows that nothing is left of anything.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, Once, PoisonError};
use std::time::Duration;

use rekindle::agent::Program;
use rekindle::pool::{Pool, PoolConfig, PoolStatus};
use rekindle::service::{
    Caller, CreateSpec, ExecuteSpec, Ledger, SandboxView, Service, ServiceConfig, ServiceError,
};
use rekindle::telemetry::Metrics;
use rekindle_fake_host::{FakeHost, MEMORY_MIB};
use rekindle_test_support::wait::{PATIENCE, until};
use tokio::runtime::{Builder, Handle};

/// How long a sandbox lives here, and so how long a transfer may take.
pub const TTL: Duration = Duration::from_secs(2 * 60 * 60);
/// Room for so many machines.
pub const MACHINES: u64 = 8;

static PANICS: AtomicU64 = AtomicU64::new(0);

/// Runs one test, alone in this process, on a clock that jumps ahead whenever everybody waits. Ends the process when
/// `alive` has not been called for longer than anything takes: a task that spins lets no clock run out.
pub fn alone(test: impl AsyncFnOnce()) {
    static ONE: Mutex<()> = Mutex::new(());
    static WATCHED: Once = Once::new();
    let _one = ONE.lock().unwrap_or_else(PoisonError::into_inner);
    WATCHED.call_once(|| {
        let usual = std::panic::take_hook();
        std::panic::set_hook(Box::new(move |info| {
            PANICS.fetch_add(1, Ordering::Relaxed);
            usual(info);
        }));
        std::thread::spawn(watch);
    });
    alive();
    let runtime = Builder::new_current_thread().enable_all().start_paused(true).build().expect("a runtime");
    let before = PANICS.load(Ordering::Relaxed);
    runtime.block_on(test());
    assert_eq!(PANICS.load(Ordering::Relaxed), before, "nothing may panic, in no task either");
}

static STEPS: AtomicU64 = AtomicU64::new(0);

/// Says that the test goes on.
pub fn alive() {
    STEPS.fetch_add(1, Ordering::Relaxed);
}

fn watch() {
    loop {
        let before = STEPS.load(Ordering::Relaxed);
        std::thread::sleep(PATIENCE * 2);
        // Tests that have ended stand still, too, but then the process is gone before long.
        if STEPS.load(Ordering::Relaxed) == before {
            eprintln!("nothing has gone on for {:?}: something spins", PATIENCE * 2);
            std::process::abort();
        }
    }
}

/// Memory this process has.
pub fn resident() -> u64 {
    let status = std::fs::read_to_string("/proc/self/status").expect("Linux");
    let line = status.lines().find(|line| line.starts_with("VmRSS:")).expect("a line");
    let kib: u64 = line.split_whitespace().nth(1).expect("a number").parse().expect("a number");
    kib << 10
}

/// Descriptors this process has open.
pub fn descriptors() -> usize {
    std::fs::read_dir("/proc/self/fd").expect("Linux").count()
}

/// A supervisor.
pub struct Place {
    pub fake: FakeHost,
    pub service: Service,
    pub caller: Caller,
    /// What it needs when nothing is under way.
    tasks: usize,
}

impl Place {
    /// With so many machines made ahead.
    pub async fn new(parked: u32, prespawned: u32) -> Self {
        let fake = FakeHost::new();
        let template = fake.template("tiny", parked, parked, prespawned).await;
        let mut config = ServiceConfig::new(template.name().clone());
        (config.ttl, config.max_ttl) = (TTL, TTL);
        // Clocks jump here; a test asks for what has ended long ago.
        config.ended_kept_for = 100 * TTL;
        let pool = PoolConfig {
            first_backoff: Duration::from_millis(20),
            ..PoolConfig::new(MEMORY_MIB * MACHINES, 1000 * MACHINES)
        };
        let pool = Pool::start(Arc::clone(&fake.host), vec![template], pool);
        let service = Service::new(config, pool, Ledger::in_memory(), Arc::new(Metrics::new()));
        let mut place = Self { fake, service, caller: Caller::local(), tasks: 0 };
        place.at_rest(parked, prespawned).await;
        place.count_tasks();
        place
    }

    pub fn status(&self) -> PoolStatus {
        self.service.pool().status()
    }

    /// Waits until so much is made ahead, and nothing else is there: no machine, no directory, no share of a budget.
    pub async fn at_rest(&self, parked: u32, prespawned: u32) {
        let ahead = (parked + prespawned) as usize;
        until("only what is made ahead is there", || {
            let status = self.status();
            let template = &status.templates[0];
            status.queued == 0
                && status.milli_cpus.used == 0
                && (template.parked, template.prespawned, template.filling) == (parked, prespawned, 0)
                && self.fake.remains().len() == ahead
                && self.fake.alive() == ahead
        })
        .await;
        if parked + prespawned == 0 {
            assert_eq!(self.status().memory_mib.used, 0, "all memory has been given back");
            assert_eq!(self.status().disk_mib.used, 0, "and all of the disk");
        }
    }

    /// Takes the tasks there are now for those that stay.
    pub fn count_tasks(&mut self) {
        self.tasks = tasks();
    }

    /// Waits until no task is left but those that stay.
    pub async fn no_task_is_left(&self) {
        let most = self.tasks;
        until(&format!("no more than {most} tasks are left"), || tasks() <= most).await;
    }

    pub async fn create(&self) -> Result<SandboxView, ServiceError> {
        self.service.create(&self.caller, CreateSpec::default(), "").await
    }

    /// A sandbox in good order, from its beginning to its end.
    pub async fn works(&self) {
        let made = self.create().await.expect("a sandbox");
        let id = made.id.as_str();
        let ran = self.service.execute(&self.caller, id, shell("echo ok"), bytes::Bytes::new(), "").await;
        assert_eq!(ran.expect("it ran").finished.stdout.text, "ok\n");
        self.service.destroy(&self.caller, id).await.expect("destroyed");
    }
}

fn tasks() -> usize {
    Handle::current().metrics().num_alive_tasks()
}

/// A shell line.
pub fn shell(line: &str) -> ExecuteSpec {
    ExecuteSpec {
        program: Program::Shell(line.into()),
        user: rekindle::agent::GuestUser::User,
        plain_interpreter: false,
        env: std::collections::BTreeMap::new(),
        cwd: String::new(),
        timeout: Some(Duration::from_secs(5)),
        memory_bytes: 0,
        output_limit: None,
        clock: rekindle::agent::ExecutionClock::default(),
    }
}
