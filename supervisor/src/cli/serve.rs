//! `rekindle serve`: the supervisor as a service, until it is told to stop.
//!
//! ```text
//! configuration ──▶ ledger (one supervisor has it) ──▶ engine, store, templates ──▶ pool ──▶ service ──▶ listen ──▶ ready
//! SIGTERM, SIGINT ──▶ no new sandboxes ──▶ calls finish (bounded) ──▶ sandboxes, pool, sockets gone
//! SIGHUP ──▶ tokens, certificates and audit log opened again
//! ```

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use anyhow::Context;
use rekindle::config::server::EngineName;
use rekindle::config::tokens::TokenFile;
use rekindle::config::{Dirs, ServerConfig, TemplateName, secret_file};
use rekindle::door::{Authenticator, Tls, TlsFiles};
use rekindle::engine::EngineKind;
use rekindle::engine::detect::EngineChoice;
use rekindle::grpc::{HostFacts, Listeners, Server, ServerHandle, ServerOptions};
use rekindle::host::{disk, memory};
use rekindle::http::Api;
use rekindle::pool::{Pool, PoolConfig, PooledTemplate, Watermarks};
use rekindle::service::{CallRate, Ledger, Service, ServiceConfig};
use rekindle::telemetry::{Audit, Logging, Metrics, MetricsServer};
use tokio::signal::unix::{Signal, SignalKind, signal};
use tokio::sync::watch;

use super::args::{MachineOptions, ServeOptions};
use super::network;
use super::serve_files::{machines, raise_open_files};
use super::serve_http::{Http, connection_limits};
use super::service_manager;
use super::setup::{self, Setup};

/// How long connections have to close once everything behind them is gone.
const LAST_CALLS: Duration = Duration::from_secs(2);
/// How often figures of all machines are brought up to date.
const FIGURES: Duration = Duration::from_secs(5);

/// Runs the command.
pub async fn serve(options: ServeOptions) -> anyhow::Result<u8> {
    let config = options.config.load()?.config;
    let _logging = Logging::init(&config.telemetry)?;
    let mut signals = Signals::new()?;
    let dirs = Dirs::find()?;
    let metrics = Arc::new(Metrics::new());
    let audit = Arc::new(match &config.telemetry.audit_log {
        Some(path) => Audit::to_file(path, metrics.audit_lost())?,
        None => Audit::to_log(),
    });
    let tokens = config.auth.tokens.as_deref().map(TokenFile::open).transpose()?;
    let authenticator = Authenticator::new(tokens, config.auth.socket_requires_token)
        .context("the tokens cannot be kept current")?;
    // First of all that lasts: whoever cannot have it must not build templates or start machines.
    std::fs::create_dir_all(&dirs.data).with_context(|| format!("cannot make {}", dirs.data.display()))?;
    let ledger = open_ledger(&config, &dirs)?;

    let machine = MachineOptions {
        engine: options.engine.unwrap_or(match config.engine.kind {
            EngineName::Auto => EngineChoice::Auto,
            EngineName::Firecracker => EngineChoice::Forced(EngineKind::Firecracker),
            EngineName::Qemu => EngineChoice::Forced(EngineKind::Qemu),
        }),
        no_jail: options.no_jail,
        require_limits: config.engine.require_limits,
    };
    let setup = Setup::open_with(&machine, config.engine.firecracker.as_deref(), &dirs)?;
    let facts = HostFacts { engine: engine(&setup), unenforced: setup.unenforced() };
    let default = config.default_template(|name| setup::has_image(name, &setup.artifacts));
    let templates = load_templates(&setup, &config, &default).await?;
    let budgets = pool_config(&config, setup.host.run_dir());
    let smallest = templates.iter().map(|template| template.source.recipe.memory_mib).min();
    raise_open_files(&config, machines(&budgets, smallest.unwrap_or(1).into()));
    let host = Arc::new(setup.host);
    let pool = Pool::start(host, templates, budgets);
    let service = Service::new(
        service_config(&config, default, Arc::clone(&audit), &metrics, &dirs.data).await?,
        pool,
        ledger,
        Arc::clone(&metrics),
    );

    let listeners = listen(&config, &dirs).await?;
    let tls = listeners.tls();
    let server_options = ServerOptions {
        connections: connection_limits(&config),
        max_streams: config.listen.max_streams_per_connection,
        facts,
    };
    let server =
        Server::new(service.clone(), Arc::clone(&authenticator), Arc::clone(&audit), server_options).await?;
    let api = Api::new(server.handler()).context("the API's own description is damaged")?;
    let server = server.beside(api.handler());
    let handle = server.handle();
    let (stop_figures, stopped) = watch::channel(false);
    let figures = serve_metrics(&config, &service, stopped).await?;
    let http = Http::open(&config, &service, &authenticator, &audit, api).await?;
    let certificates: Vec<Arc<Tls>> =
        tls.into_iter().chain(http.as_ref().and_then(|http| http.tls.clone())).collect();
    let http_handle = http.as_ref().map(|http| http.handle.clone());
    // Before it is announced: whoever reads that may ask the service manager.
    service_manager::serving();
    announce(&config, &dirs, &listeners);
    if let Some(http) = &http {
        http.announce();
    }
    let mut serving = tokio::spawn(async move {
        let on_http = async {
            if let Some(http) = http {
                http.serve().await;
            }
        };
        tokio::join!(server.serve(listeners), on_http).0
    });

    let ended = loop {
        tokio::select! {
            ended = &mut serving => break Some(ended),
            wish = signals.next() => match wish {
                Wish::Reload => reload(&authenticator, &certificates, &audit),
                Wish::Stop => break None,
            },
        }
    };
    match ended {
        Some(ended) => {
            service.shut_down(Duration::ZERO).await;
            ended.context("the server panicked")??;
        }
        None => {
            tracing::info!("shutting down");
            service_manager::stopping();
            finish(&service, &handle, &mut signals, Duration::from_secs(config.shutdown.drain_s)).await;
            if let Some(http) = http_handle {
                http.stop();
            }
            // Whoever only watches would keep the server for ever.
            if tokio::time::timeout(LAST_CALLS, &mut serving).await.is_err() {
                serving.abort();
                let _ = serving.await;
            }
        }
    }
    stop_figures.send_replace(true);
    for task in figures {
        let _ = task.await;
    }
    if !audit.flush() {
        tracing::error!("not all of the audit log could be written");
    }
    tracing::info!("gone");
    Ok(0)
}

/// Opens the ledger where it is configured, and says so when it would not survive the host.
fn open_ledger(config: &ServerConfig, dirs: &Dirs) -> anyhow::Result<Ledger> {
    let usual = dirs.data.join("usage.jsonl");
    let path = config.telemetry.usage_ledger.as_deref().unwrap_or(&usual);
    let ledger = Ledger::open_for(path, &dirs.data)?;
    if disk::in_memory(path) {
        tracing::warn!(
            path = %path.display(),
            "the ledger is on a file system in memory: what tenants have used is forgotten when the host restarts\n\
             hint: name a file on a disk with telemetry.usage_ledger"
        );
    }
    Ok(ledger)
}

/// The engine in one line.
fn engine(setup: &Setup) -> String {
    let identity = setup.host.engine().identity();
    format!("{} {} ({})", identity.engine, identity.version, identity.accelerator)
}

/// Drains and ends everything; a second signal cuts the drain short.
async fn finish(service: &Service, handle: &ServerHandle, signals: &mut Signals, within: Duration) {
    handle.drain().await;
    let patient = service.shut_down(within);
    tokio::select! {
        () = patient => {}
        () = async { while signals.next().await != Wish::Stop {} } => {
            tracing::warn!("asked again: calls under way are cut off");
            service.shut_down(Duration::ZERO).await;
        }
    }
    handle.stop();
}

fn reload(authenticator: &Authenticator, certificates: &[Arc<Tls>], audit: &Audit) {
    audit.reopen();
    authenticator.reload();
    for tls in certificates {
        tls.reload();
    }
}

/// Loads, and where needed builds, every template that is served.
async fn load_templates(
    setup: &Setup,
    config: &ServerConfig,
    default: &TemplateName,
) -> anyhow::Result<Vec<PooledTemplate>> {
    let mut templates = Vec::new();
    for (name, levels) in config.templates(default) {
        service_manager::loading(&name);
        let source = setup.source(&name)?;
        let snapshot = Arc::new(setup.snapshot(&source).await?);
        let parked = Watermarks { low: levels.parked_low, high: levels.parked_high };
        tracing::info!(template = %name, "loaded");
        templates.push(PooledTemplate { source, snapshot, parked, prespawned: levels.prespawned });
    }
    anyhow::ensure!(
        templates.iter().any(|template| template.source.recipe.name == *default),
        "the default template {default} is not among [pool.templates]\nhint: add [pool.templates.{default}] or change sandbox.default_template"
    );
    Ok(templates)
}

fn pool_config(config: &ServerConfig, run_dir: &Path) -> PoolConfig {
    // A percentage without a fraction is as exact as anyone needs it.
    let percent = |factor: f64| (factor * 100.0).round().clamp(1.0, 1_000_000.0) as u32;
    let cores = std::thread::available_parallelism().map_or(1, std::num::NonZero::get) as u64;
    let or = |given: u64, default: u64| if given == 0 { default } else { given };
    let memory = or(config.pool.memory_budget_mib, memory::total_mib().unwrap_or(1024) * 4 / 5);
    // What an operator gives as a budget is meant; only the host's own cores are handed out several times.
    let (cpu, cpu_overcommit) = match config.pool.milli_cpus_budget {
        0 => (cores * 1000, percent(config.pool.cpu_overcommit)),
        given => (given, 100),
    };
    // What nobody can tell is not bounded.
    let free = disk::free_mib(run_dir).map_or(u64::MAX, |free| free / 10 * 9);
    PoolConfig {
        disk_budget_mib: or(config.pool.disk_budget_mib, free),
        disk_overcommit_percent: percent(config.pool.disk_overcommit),
        disk_reserve_mib: config.pool.disk_reserve_mib,
        memory_overcommit_percent: percent(config.pool.memory_overcommit),
        cpu_overcommit_percent: cpu_overcommit,
        max_queued: config.pool.max_queued,
        max_queued_per_tenant: config.pool.max_queued_per_tenant,
        fill_parallel: config.pool.fill_parallel,
        ..PoolConfig::new(memory, cpu)
    }
}

async fn service_config(
    config: &ServerConfig,
    default_template: TemplateName,
    audit: Arc<Audit>,
    metrics: &Metrics,
    data: &Path,
) -> anyhow::Result<ServiceConfig> {
    let seconds = Duration::from_secs;
    let sandbox = &config.sandbox;
    let (network, gateway) = network::open(config, data, metrics.network_worker_restarts()).await?;
    Ok(ServiceConfig {
        default_template,
        ttl: seconds(sandbox.ttl_s),
        max_ttl: seconds(sandbox.max_ttl_s),
        idle_timeout: (sandbox.idle_timeout_s != 0).then(|| seconds(sandbox.idle_timeout_s)),
        max_pause: (sandbox.max_pause_s != 0).then(|| seconds(sandbox.max_pause_s)),
        execute_timeout: seconds(sandbox.execute_timeout_s),
        max_execute_timeout: seconds(sandbox.max_execute_timeout_s),
        output_limit: sandbox.output_limit,
        max_output_limit: sandbox.max_output_limit,
        max_upload_bytes: sandbox.max_upload_bytes,
        max_download_bytes: sandbox.max_download_bytes,
        pids: sandbox.pids,
        queue_wait: seconds(config.pool.queue_wait_s),
        max_queue_wait: seconds(config.pool.max_queue_wait_s),
        ended_kept: sandbox.ended_kept,
        ended_kept_for: seconds(sandbox.ended_kept_s),
        timeline_entries: sandbox.timeline_entries,
        usage_interval: (sandbox.usage_interval_s != 0).then(|| seconds(sandbox.usage_interval_s)),
        call_rate: CallRate::new(config.auth.max_calls_per_second, config.auth.max_calls_burst),
        network,
        gateway,
        audit,
    })
}

fn socket_path(config: &ServerConfig, dirs: &Dirs) -> PathBuf {
    config.listen.socket_path(&dirs.data, nix::unistd::geteuid().is_root())
}

async fn listen(config: &ServerConfig, dirs: &Dirs) -> anyhow::Result<Listeners> {
    let mode = config.listen.mode().bits();
    let group = config.listen.socket_group.as_deref();
    let mut listeners = Listeners::default().socket(&socket_path(config, dirs), mode, group).await?;
    if let (Some(address), Some(cert), Some(key)) =
        (config.listen.tcp, &config.listen.tls_cert, &config.listen.tls_key)
    {
        secret_file::check(key)?;
        let client_ca = config.listen.client_ca.clone();
        listeners =
            listeners.tcp(address, &TlsFiles { cert: cert.clone(), key: key.clone(), client_ca }).await?;
    }
    Ok(listeners)
}

/// Says where to connect, on standard output: whoever started this may wait for the line.
fn announce(config: &ServerConfig, dirs: &Dirs, listeners: &Listeners) {
    println!("serving on unix:{}", socket_path(config, dirs).display());
    if let Some(address) = listeners.tcp_address() {
        println!("serving on https://{address}");
    }
}

/// Serves the metrics where that is configured, and keeps the figures of the machines up to date.
async fn serve_metrics(
    config: &ServerConfig,
    service: &Service,
    stopped: watch::Receiver<bool>,
) -> anyhow::Result<Vec<tokio::task::JoinHandle<()>>> {
    let Some(address) = config.telemetry.metrics_listen else { return Ok(Vec::new()) };
    let until = |mut stopped: watch::Receiver<bool>| async move {
        let _ = stopped.wait_for(|stopped| *stopped).await;
    };
    let (metrics, healthy) = (Arc::clone(service.metrics()), service.clone());
    let server =
        MetricsServer::bind(address, move || metrics.encode(), move || !healthy.overview().draining).await?;
    println!("metrics on http://{}/metrics", server.address()?);
    let serving = tokio::spawn(server.serve(until(stopped.clone())));
    let service = service.clone();
    let figures = tokio::spawn(async move {
        let mut ticks = tokio::time::interval(FIGURES);
        let ended = until(stopped);
        tokio::pin!(ended);
        loop {
            tokio::select! {
                () = &mut ended => return,
                _ = ticks.tick() => service.metrics().gauges(&service.gauges().await),
            }
        }
    });
    Ok(vec![serving, figures])
}

/// What a signal asks for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Wish {
    Stop,
    Reload,
}

/// The signals a service listens to.
struct Signals {
    interrupt: Signal,
    terminate: Signal,
    hang_up: Signal,
}

impl Signals {
    fn new() -> anyhow::Result<Self> {
        let on = |kind| signal(kind).context("signals cannot be listened to");
        Ok(Self {
            interrupt: on(SignalKind::interrupt())?,
            terminate: on(SignalKind::terminate())?,
            hang_up: on(SignalKind::hangup())?,
        })
    }

    async fn next(&mut self) -> Wish {
        tokio::select! {
            _ = self.interrupt.recv() => Wish::Stop,
            _ = self.terminate.recv() => Wish::Stop,
            _ = self.hang_up.recv() => Wish::Reload,
        }
    }
}
