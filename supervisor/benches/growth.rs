//! What a sandbox costs the supervisor when it has many others: `cargo bench -p rekindle --bench growth`.
//!
//! Two whole supervisors on the fake engine, in this process, each with a server in front of it. One is always small;
//! the other has so many live sandboxes, so many that have ended, or so many watchers. Lives (Create, Execute, Destroy)
//! are taken in turns, so that whatever else this machine does meets both; a row is the median of the ratios.
//! Processor time is that of the whole process, which is the supervisor's and its client's: machines and their guests
//! are simulated in it.

use std::time::{Duration, Instant};

use futures::StreamExt as _;
use futures::stream::FuturesUnordered;
use rekindle::pool::PoolConfig;
use rekindle::telemetry::Audit;
use rekindle_api::client::Client;
use rekindle_api::time::duration;
use rekindle_api::v1;
use rekindle_fake_host::{FakeSupervisor, MEMORY_MIB, Wishes};
use rustix::time::{ClockId, clock_gettime};

/// Lives of each side that count.
const PAIRS: usize = 300;
/// Before the first one that counts.
const WARM_UP: usize = 30;
/// Streams of one connection.
const STREAMS: usize = 100;
/// Calls under way at once while something is made large.
const AT_ONCE: usize = 16;
/// Live sandboxes, ended ones, watchers.
const SITUATIONS: [(usize, usize, usize); 6] =
    [(1, 0, 0), (50, 0, 0), (500, 0, 0), (5_000, 0, 0), (1, 100_000, 0), (1, 0, 1_000)];

/// A supervisor.
struct Place {
    client: Client,
    supervisor: FakeSupervisor,
}

/// What one life took: waiting for the three calls, and processor time.
#[derive(Clone, Copy)]
struct Cost {
    create: f64,
    execute: f64,
    destroy: f64,
    cpu: f64,
}

impl Place {
    async fn new() -> Self {
        let supervisor = FakeSupervisor::start(Wishes {
            pool: PoolConfig::new(MEMORY_MIB * 10_000, 100_000_000),
            audit: Some(Audit::to_log()),
            ..Wishes::default()
        })
        .await;
        Self { client: supervisor.client().await, supervisor }
    }

    /// One life of a sandbox.
    async fn life(&self) -> Cost {
        let (began, cpu) = (Instant::now(), processor_time());
        let id = self.create().await;
        let created = began.elapsed();
        let command = v1::Command { argv: vec!["true".into()] };
        let request = v1::ExecuteRequest {
            sandbox: id.clone(),
            program: Some(v1::Program { program: Some(v1::program::Program::Command(command)) }),
            ..v1::ExecuteRequest::default()
        };
        self.client.clone().sandboxes.execute(request).await.expect("executed");
        let executed = began.elapsed();
        self.destroy(id).await;
        let destroyed = began.elapsed();
        Cost {
            create: created.as_secs_f64(),
            execute: (executed - created).as_secs_f64(),
            destroy: (destroyed - executed).as_secs_f64(),
            cpu: (processor_time() - cpu).as_secs_f64(),
        }
    }

    async fn create(&self) -> String {
        let ttl = Some(duration(Duration::from_secs(12 * 60 * 60)));
        let request = v1::CreateSandboxRequest { ttl, ..v1::CreateSandboxRequest::default() };
        self.client.clone().sandboxes.create(request).await.expect("created").into_inner().id
    }

    async fn destroy(&self, sandbox: String) {
        let request = v1::DestroySandboxRequest { sandbox };
        self.client.clone().sandboxes.destroy(request).await.expect("destroyed");
    }

    /// Makes it large.
    async fn grow(&self, live: usize, ended: usize, watchers: usize) {
        many(live.saturating_sub(1), || async { drop(self.create().await) }).await;
        many(ended, || async { self.destroy(self.create().await).await }).await;
        let mut left = watchers;
        while left > 0 {
            let mut client = self.supervisor.client().await;
            for _ in 0..left.min(STREAMS) {
                let request = v1::WatchSandboxesRequest::default();
                let mut events = client.sandboxes.watch(request).await.expect("watched").into_inner();
                tokio::spawn(
                    async move { while events.message().await.is_ok_and(|event| event.is_some()) {} },
                );
            }
            left -= left.min(STREAMS);
        }
    }
}

/// Does it so many times, some at once.
async fn many<F: Future<Output = ()>>(count: usize, one: impl Fn() -> F) {
    let mut under_way = FuturesUnordered::new();
    for _ in 0..count {
        under_way.push(one());
        if under_way.len() >= AT_ONCE {
            under_way.next().await;
        }
    }
    while under_way.next().await.is_some() {}
}

fn processor_time() -> Duration {
    let now = clock_gettime(ClockId::ProcessCPUTime);
    Duration::new(now.tv_sec.unsigned_abs(), u32::try_from(now.tv_nsec).unwrap_or(0))
}

fn median(mut values: Vec<f64>) -> f64 {
    values.sort_by(f64::total_cmp);
    values[values.len() / 2]
}

async fn measure(live: usize, ended: usize, watchers: usize) {
    let (small, large) = (Place::new().await, Place::new().await);
    small.grow(1, 0, 0).await;
    large.grow(live, ended, watchers).await;
    let mut rounds = Vec::new();
    for round in 0..WARM_UP + PAIRS {
        let pair = (small.life().await, large.life().await);
        if round >= WARM_UP {
            rounds.push(pair);
        }
    }
    let ratio =
        |of: fn(&Cost) -> f64| median(rounds.iter().map(|(small, large)| of(large) / of(small)).collect());
    let whole = |cost: &Cost| cost.create + cost.execute + cost.destroy;
    println!(
        "| {live} | {ended} | {watchers} | {:.2} | {:.2} | {:.2} | {:.2} | {:.2} ms |",
        ratio(|cost| cost.create),
        ratio(|cost| cost.execute),
        ratio(|cost| cost.destroy),
        ratio(|cost| cost.cpu),
        median(rounds.iter().map(|(_, large)| whole(large)).collect()) * 1e3,
    );
    for place in [small, large] {
        place.supervisor.service.shut_down(Duration::ZERO).await;
    }
}

fn main() {
    // `cargo test --benches` only wants to know that it starts.
    let quick = std::env::args().any(|word| word == "--test");
    println!("| live | ended before | watchers | Create | Execute | Destroy | processor time | a life |");
    println!("|---:|---:|---:|---:|---:|---:|---:|---:|");
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build().expect("a runtime");
    for (live, ended, watchers) in SITUATIONS {
        let most = if quick { 2 } else { usize::MAX };
        runtime.block_on(measure(live.min(most), ended.min(most), watchers.min(most)));
    }
}
