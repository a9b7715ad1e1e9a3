//! The metrics of the service, recorded by name of what happened and encoded as OpenMetrics text.
//!
//! Labels come from closed sets (stages, outcomes, reasons, methods, templates), never from a caller: a label
//! of a caller's making would grow without bound.

use std::sync::atomic::Ordering;
use std::time::Duration;

use prometheus_client::encoding::EncodeLabelSet;
use prometheus_client::encoding::text::encode;
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::{Family, MetricConstructor};
use prometheus_client::metrics::gauge::Gauge;
use prometheus_client::metrics::histogram::{Histogram, exponential_buckets};
use prometheus_client::metrics::info::Info;
use prometheus_client::registry::Registry;

#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
struct Stage {
    kind: &'static str,
    stage: &'static str,
}

#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
struct Level {
    template: String,
    state: &'static str,
}

#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
struct State {
    state: &'static str,
}

#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
struct Outcome {
    outcome: &'static str,
}

#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
struct Reason {
    reason: &'static str,
}

#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
struct Diagnosis {
    code: &'static str,
}

#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
struct Call {
    method: &'static str,
    code: &'static str,
}

#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
struct Method {
    method: &'static str,
}

#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
struct Way {
    direction: &'static str,
}

#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
struct GatewayCall {
    service: String,
    outcome: String,
}

#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
struct GatewayService {
    service: String,
}

/// Which way bytes went, seen from the service.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Direction {
    /// From a caller.
    In,
    /// To a caller.
    Out,
}

/// Buckets from a tenth of a millisecond to two minutes: a claim and a long execution both find theirs.
#[derive(Debug, Clone)]
struct Seconds;

impl MetricConstructor<Histogram> for Seconds {
    fn new_metric(&self) -> Histogram {
        Histogram::new(exponential_buckets(0.000_1, 2.0, 21))
    }
}

/// How many machines of one template wait.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TemplateLevels {
    /// The template.
    pub template: String,
    /// Restored machines.
    pub parked: u64,
    /// Monitors that wait for a snapshot.
    pub prespawned: u64,
    /// Machines that are being made ready.
    pub filling: u64,
}

/// How things stand now, as the service counts them.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Gauges {
    /// The pool's levels.
    pub templates: Vec<TemplateLevels>,
    /// Callers that wait for room.
    pub queued: u64,
    /// Sandboxes that run.
    pub running: u64,
    /// Sandboxes that are paused.
    pub paused: u64,
    /// Clones that kept silent and were replaced, since the start.
    pub restores_repeated: u64,
    /// Processor time of all machines that exist, in seconds.
    pub cpu_seconds: f64,
    /// Memory of all machines that exist, in bytes.
    pub memory_bytes: u64,
}

/// Everything that is counted.
#[derive(Debug)]
pub struct Metrics {
    registry: Registry,
    starts: Family<Stage, Histogram, Seconds>,
    levels: Family<Level, Gauge>,
    queued: Gauge,
    restores_repeated: Counter,
    sandboxes: Family<State, Gauge>,
    executions: Family<Outcome, Counter>,
    execution_seconds: Histogram,
    diagnoses: Family<Diagnosis, Counter>,
    rejections: Family<Reason, Counter>,
    cpu_seconds: Gauge<f64, std::sync::atomic::AtomicU64>,
    memory_bytes: Gauge,
    calls: Family<Call, Counter>,
    call_seconds: Family<Method, Histogram, Seconds>,
    bytes: Family<Way, Counter>,
    connections: Family<Outcome, Counter>,
    network_bytes: Family<Way, Counter>,
    network_requests: Counter,
    gateway_requests: Family<GatewayCall, Counter>,
    gateway_cost: Family<GatewayService, Counter>,
    network_worker_restarts: Counter,
    audit_lost: Counter,
}

impl Default for Metrics {
    fn default() -> Self {
        Self::new()
    }
}

impl Metrics {
    /// Everything at zero.
    #[must_use]
    pub fn new() -> Self {
        let mut metrics = Self {
            registry: Registry::with_prefix("rekindle"),
            starts: Family::new_with_constructor(Seconds),
            levels: Family::default(),
            queued: Gauge::default(),
            restores_repeated: Counter::default(),
            sandboxes: Family::default(),
            executions: Family::default(),
            execution_seconds: Seconds.new_metric(),
            diagnoses: Family::default(),
            rejections: Family::default(),
            cpu_seconds: Gauge::default(),
            memory_bytes: Gauge::default(),
            calls: Family::default(),
            call_seconds: Family::new_with_constructor(Seconds),
            bytes: Family::default(),
            connections: Family::default(),
            network_bytes: Family::default(),
            network_requests: Counter::default(),
            gateway_requests: Family::default(),
            gateway_cost: Family::default(),
            network_worker_restarts: Counter::default(),
            audit_lost: Counter::default(),
        };
        let to = &mut metrics.registry;
        to.register("build", "What is running", Info::new([("version", env!("CARGO_PKG_VERSION"))]));
        // Counters get their `_total` from the encoder.
        to.register("start_seconds", "Time to make a sandbox ready, by stage", metrics.starts.clone());
        to.register("pool_machines", "Machines that wait, by template", metrics.levels.clone());
        to.register("pool_queued", "Callers that wait for room", metrics.queued.clone());
        to.register(
            "restores_repeated",
            "Clones that kept silent and were replaced",
            metrics.restores_repeated.clone(),
        );
        to.register("sandboxes", "Sandboxes that exist", metrics.sandboxes.clone());
        to.register("executions", "Executions that ended, by outcome", metrics.executions.clone());
        to.register("execution_seconds", "Time executions took", metrics.execution_seconds.clone());
        to.register("diagnoses", "What went wrong in executions, by code", metrics.diagnoses.clone());
        to.register("rejections", "Requests that were turned away", metrics.rejections.clone());
        to.register(
            "cgroup_cpu_seconds",
            "Processor time of machines that exist",
            metrics.cpu_seconds.clone(),
        );
        to.register("cgroup_memory_bytes", "Memory of machines that exist", metrics.memory_bytes.clone());
        to.register("calls", "Calls that ended, by method and code", metrics.calls.clone());
        to.register("call_seconds", "Time calls took, by method", metrics.call_seconds.clone());
        to.register("bytes", "Bytes of files and streams moved for callers", metrics.bytes.clone());
        to.register(
            "network_connections",
            "Connections of sandboxes to the outside that have ended, by what became of them",
            metrics.connections.clone(),
        );
        to.register(
            "network_bytes",
            "Bytes of sandboxes' connections to the outside",
            metrics.network_bytes.clone(),
        );
        to.register(
            "network_requests",
            "Requests of plain HTTP of sandboxes to the outside that were let through",
            metrics.network_requests.clone(),
        );
        to.register(
            "gateway_requests",
            "Requests of sandboxes to the gateway, by service and by what became of them",
            metrics.gateway_requests.clone(),
        );
        to.register(
            "gateway_cost",
            "What sandboxes have spent at the gateway, in the operator's units",
            metrics.gateway_cost.clone(),
        );
        to.register(
            "network_worker_restarts",
            "Times that the process that serves sandboxes' connections had to be replaced",
            metrics.network_worker_restarts.clone(),
        );
        to.register(
            "audit_lost",
            "Audit lines that did not reach the audit file",
            metrics.audit_lost.clone(),
        );
        metrics
    }

    /// A sandbox was made ready: `kind` is parked, prespawned, restored or booted; `stages` add up to the whole,
    /// which is recorded as the stage `total`.
    pub fn start(&self, kind: &'static str, stages: impl IntoIterator<Item = (&'static str, Duration)>) {
        let mut total = Duration::ZERO;
        for (stage, took) in stages {
            total += took;
            self.starts.get_or_create(&Stage { kind, stage }).observe(took.as_secs_f64());
        }
        self.starts.get_or_create(&Stage { kind, stage: "total" }).observe(total.as_secs_f64());
    }

    /// An execution ended.
    pub fn execution(&self, outcome: &'static str, took: Duration) {
        self.executions.get_or_create(&Outcome { outcome }).inc();
        self.execution_seconds.observe(took.as_secs_f64());
    }

    /// Something went wrong in an execution.
    pub fn diagnosed(&self, code: &'static str) {
        self.diagnoses.get_or_create(&Diagnosis { code }).inc();
    }

    /// A request was turned away.
    pub fn rejected(&self, reason: &'static str) {
        self.rejections.get_or_create(&Reason { reason }).inc();
    }

    /// A call ended.
    pub fn call(&self, method: &'static str, code: &'static str, took: Duration) {
        self.calls.get_or_create(&Call { method, code }).inc();
        self.call_seconds.get_or_create(&Method { method }).observe(took.as_secs_f64());
    }

    /// Bytes of a file or stream were moved.
    pub fn bytes(&self, direction: Direction, count: u64) {
        let direction = match direction {
            Direction::In => "in",
            Direction::Out => "out",
        };
        self.bytes.get_or_create(&Way { direction }).inc_by(count);
    }

    /// A connection of a sandbox to the outside has ended: `outcome` is served, cut, denied or failed. What it moved is
    /// counted now, however long it took.
    pub fn connection(&self, outcome: &'static str, up: u64, down: u64) {
        self.connections.get_or_create(&Outcome { outcome }).inc();
        for (direction, bytes) in [("up", up), ("down", down)] {
            self.network_bytes.get_or_create(&Way { direction }).inc_by(bytes);
        }
    }

    /// A request of plain HTTP was let through.
    pub fn network_request(&self) {
        self.network_requests.inc();
    }

    /// A request of a sandbox to the gateway was decided about: `service` is one of the operator's, `outcome` is passed,
    /// failed, or why it was denied.
    pub fn gateway(&self, service: &str, outcome: &str, cost: u64) {
        let (service, outcome) = (service.to_owned(), outcome.to_owned());
        if cost > 0 {
            self.gateway_cost.get_or_create(&GatewayService { service: service.clone() }).inc_by(cost);
        }
        self.gateway_requests.get_or_create(&GatewayCall { service, outcome }).inc();
    }

    /// How things stand now. A template that is no longer named is no longer shown.
    pub fn gauges(&self, now: &Gauges) {
        self.levels.clear();
        for template in &now.templates {
            for (state, count) in [
                ("parked", template.parked),
                ("prespawned", template.prespawned),
                ("filling", template.filling),
            ] {
                let level = Level { template: template.template.clone(), state };
                self.levels.get_or_create(&level).set(signed(count));
            }
        }
        self.queued.set(signed(now.queued));
        // Counted where it happens; it only grows there.
        self.restores_repeated.inner().store(now.restores_repeated, Ordering::Relaxed);
        self.sandboxes.get_or_create(&State { state: "running" }).set(signed(now.running));
        self.sandboxes.get_or_create(&State { state: "paused" }).set(signed(now.paused));
        self.cpu_seconds.set(now.cpu_seconds);
        self.memory_bytes.set(signed(now.memory_bytes));
    }

    /// The counter of workers that had to be replaced.
    #[must_use]
    pub fn network_worker_restarts(&self) -> Counter {
        self.network_worker_restarts.clone()
    }

    /// The counter of audit lines that did not reach their file.
    #[must_use]
    pub fn audit_lost(&self) -> Counter {
        self.audit_lost.clone()
    }

    /// Everything as OpenMetrics text.
    #[must_use]
    pub fn encode(&self) -> String {
        let mut text = String::new();
        // Writing to a string does not fail.
        let _ = encode(&mut text, &self.registry);
        text
    }
}

fn signed(count: u64) -> i64 {
    i64::try_from(count).unwrap_or(i64::MAX)
}

#[cfg(test)]
mod tests;
