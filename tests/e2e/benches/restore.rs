//! Cold boot against restore, each from nothing to the agent's first answer: `cargo bench -p rekindle-e2e`.
//!
//! Boots and restores alternate, so that a busy minute of the host hits both. "First answer" is the agent's
//! hello; "usable" includes the gate, after which a caller's program may run. Percentiles are of whole
//! starts; the stage table shows medians, which need not add up.

use std::collections::BTreeMap;
use std::time::Duration;

use rekindle::engine::Timings;
use rekindle_e2e::Lab;

/// Cold boots measured.
const BOOTS: usize = 5;
/// Restores measured after each of them.
const RESTORES: usize = 8;
/// The stage in which a caller's programs become possible, after the first answer.
const GATE: &str = "gate";

/// Starts of one kind.
#[derive(Default)]
struct Starts {
    first_answer: Vec<Duration>,
    usable: Vec<Duration>,
    stages: BTreeMap<&'static str, Vec<Duration>>,
    order: Vec<&'static str>,
}

impl Starts {
    fn add(&mut self, timings: &Timings) {
        let answered = timings.stages.iter().filter(|stage| stage.name != GATE).map(|stage| stage.took).sum();
        self.first_answer.push(answered);
        self.usable.push(timings.total());
        for stage in &timings.stages {
            if !self.order.contains(&stage.name) {
                self.order.push(stage.name);
            }
            self.stages.entry(stage.name).or_default().push(stage.took);
        }
    }

    fn print(&self, name: &str) {
        for (what, times) in [("to first answer", &self.first_answer), ("to usable", &self.usable)] {
            println!(
                "{name:<10} {what:<16} p50 {:>8.1} ms   p95 {:>8.1} ms   n {}",
                millis(percentile(times, 50)),
                millis(percentile(times, 95)),
                times.len()
            );
        }
    }

    fn print_stages(&self, name: &str) {
        println!("\n{name}, median of each stage in ms:");
        for stage in &self.order {
            println!("  {stage:<10} {:>8.1}", millis(percentile(&self.stages[stage], 50)));
        }
    }
}

/// The value that `percent` of all are not above.
fn percentile(times: &[Duration], percent: usize) -> Duration {
    let mut sorted = times.to_vec();
    sorted.sort();
    sorted[(sorted.len() * percent).div_ceil(100).max(1) - 1]
}

fn millis(time: Duration) -> f64 {
    time.as_secs_f64() * 1000.0
}

fn main() {
    // `cargo test --benches` runs every benchmark; only `cargo bench` asks for a measurement.
    if !std::env::args().any(|word| word == "--bench") {
        return;
    }
    let lab = match Lab::get() {
        Ok(lab) => lab,
        Err(reason) => {
            println!("skipped: {reason}");
            return;
        }
    };
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build();
    let (boots, restores) = runtime.expect("a runtime").block_on(measure(lab));
    let identity = lab.host.engine().identity();
    let recipe = &lab.source.recipe;
    println!(
        "template {}: {} vcpus, {} MiB; engine {} {} ({})\n",
        recipe.name, recipe.vcpus, recipe.memory_mib, identity.engine, identity.version, identity.accelerator
    );
    boots.print("cold boot");
    restores.print("restore");
    for (what, cold, warm) in [
        ("to first answer", &boots.first_answer, &restores.first_answer),
        ("to usable", &boots.usable, &restores.usable),
    ] {
        let ratio = |percent| millis(percentile(cold, percent)) / millis(percentile(warm, percent));
        println!("ratio      {what:<16} p50 {:>8.1} x    p95 {:>8.1} x", ratio(50), ratio(95));
    }
    boots.print_stages("cold boot");
    restores.print_stages("restore");
}

async fn measure(lab: &Lab) -> (Starts, Starts) {
    let (mut boots, mut restores) = (Starts::default(), Starts::default());
    // The first of each finds caches cold that a host at work has warm.
    lab.cold_boot().await.expect("boots").stop().await;
    lab.clone().await.stop().await;
    for _ in 0..BOOTS {
        let vm = lab.cold_boot().await.expect("boots");
        boots.add(vm.timings());
        vm.stop().await;
        for _ in 0..RESTORES {
            let vm = lab.clone().await;
            restores.add(vm.timings());
            vm.stop().await;
        }
    }
    (boots, restores)
}
