//! The network of a host, as `serve` and `run` open it, and the worker that they start for it.

use std::path::Path;

use anyhow::Context as _;
use prometheus_client::metrics::counter::Counter;
use rekindle::config::ServerConfig;
use rekindle::host::core_dumps;
use rekindle::network::{Cassettes, Egress, Gateway, Worker, WorkerOptions, worker};

/// Opens what is configured, with a worker that serves its connections; cassettes are in the directory for data.
/// `restarts` counts workers that had to be replaced.
pub async fn open(
    config: &ServerConfig,
    data: &Path,
    restarts: Counter,
) -> anyhow::Result<(Egress, Gateway)> {
    // From here on there are credentials in this process.
    core_dumps::forbid().context("core dumps cannot be forbidden")?;
    let egress = Egress::new(&config.network.policies, &config.network.hosts)?;
    let egress = egress.with_cassettes(Cassettes::new(data));
    let gateway = Gateway::open(&config.gateway.services, config.gateway.budget)?;
    let worker = Worker::start(WorkerOptions::this_program(restarts), &egress, &gateway).await?;
    Ok((egress.through(worker), gateway))
}

/// A network without a policy. Its worker is started when a guest tries to connect all the same.
pub fn none() -> (Egress, Gateway) {
    let (egress, gateway) = (Egress::default(), Gateway::default());
    let options = WorkerOptions::this_program(Counter::default());
    let worker = Worker::when_needed(options, &egress, &gateway);
    (egress.through(worker), gateway)
}

/// Runs the command: the worker itself, on a channel that the supervisor has left open.
pub async fn worker(control: i32) -> anyhow::Result<u8> {
    worker::run(control).await?;
    Ok(0)
}
