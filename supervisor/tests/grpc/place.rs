//! A whole supervisor on the fake engine, with a real server in front of it. Every test of this binary begins
//! here.

use std::fs;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use rekindle::config::tokens::{self, NewToken, Quota, Scope, TokenFile};
use rekindle::config::{Recipe, TemplateName};
use rekindle::door::{Authenticator, ConnectionLimits, Tls, TlsFiles};
use rekindle::engine::Engine;
use rekindle::engine::fake::{FakeControl, FakeEngine};
use rekindle::grpc::{HostFacts, Listeners, Server, ServerHandle, ServerOptions};
use rekindle::host::cgroup::CgroupManager;
use rekindle::network::{Egress, Gateway, Worker, WorkerOptions};
use rekindle::pool::{Pool, PoolConfig, PooledTemplate, Watermarks};
use rekindle::service::{Ledger, Service, ServiceConfig};
use rekindle::store::{Artifact, Store};
use rekindle::telemetry::{Audit, Metrics};
use rekindle::vm::{TemplateSource, VmHost, VmHostConfig};
use rekindle_api::client::{Client, Target};
use rekindle_api::v1::{self, ErrorDetail, ErrorReason};
use rekindle_api::{Code, Status};
use rekindle_fake_guest::{Guest, Guests};
use serde_json::Value;
use tokio::task::JoinHandle;
use tonic::Response;

/// Milliseconds as the API has them.
pub fn millis(millis: u64) -> Option<rekindle_api::Duration> {
    Some(rekindle_api::time::duration(Duration::from_millis(millis)))
}

/// Longer than anything takes, also on a busy machine.
pub const SOON: Duration = Duration::from_secs(60);
/// Memory of a machine of the test's template.
pub const MIB: u64 = 64;

/// What a test wants to be different.
pub struct Wishes {
    pub pool: PoolConfig,
    pub parked: u32,
    /// Where its data is; else in a directory of its own.
    pub data: Option<PathBuf>,
    pub service: fn(&mut ServiceConfig),
    /// What sandboxes may reach.
    pub network: Egress,
    /// What they may be let call.
    pub gateway: Gateway,
    pub ledger: Ledger,
    pub connections: ConnectionLimits,
    pub max_streams: u32,
    pub tokens: Option<PathBuf>,
    pub socket_requires_token: bool,
    pub tls: Option<TlsFiles>,
    /// Whether the template allows root.
    pub root: bool,
}

impl Default for Wishes {
    fn default() -> Self {
        Self {
            pool: PoolConfig::new(MIB * 64, 1_000_000),
            parked: 0,
            data: None,
            service: |_| {},
            network: Egress::default(),
            gateway: Gateway::default(),
            ledger: Ledger::in_memory(),
            connections: ConnectionLimits::default(),
            max_streams: 128,
            tokens: None,
            socket_requires_token: false,
            tls: None,
            root: true,
        }
    }
}

/// A supervisor that serves.
pub struct Place {
    pub engine: FakeEngine,
    pub guests: Guests,
    pub service: Service,
    pub handle: ServerHandle,
    pub serving: JoinHandle<()>,
    pub tcp: Option<SocketAddr>,
    pub tls: Option<Arc<Tls>>,
    pub authenticator: Arc<Authenticator>,
    audit: Arc<Audit>,
    dir: tempfile::TempDir,
}

impl Place {
    pub async fn new() -> Self {
        Self::with(Wishes::default()).await
    }

    pub async fn with(wishes: Wishes) -> Self {
        let dir = tempfile::tempdir().expect("a directory");
        let data = wishes.data.clone().unwrap_or_else(|| dir.path().join("data"));
        let guests = Guests::default();
        let engine = FakeEngine::new(guests.handler());
        let config = VmHostConfig {
            engine: Arc::new(engine.clone()) as Arc<dyn Engine>,
            cgroups: CgroupManager::none("tests of the service need none"),
            require_limits: false,
            data_dir: data.clone(),
            users: None,
        };
        let host = Arc::new(VmHost::open(config).expect("a host"));
        let template = template(dir.path(), &data, &host, wishes.parked, wishes.root).await;
        let name = template.name().clone();
        let pool = Pool::start(host, vec![template], wishes.pool);
        let metrics = Arc::new(Metrics::new());
        let log = dir.path().join("audit.jsonl");
        let audit = Arc::new(Audit::to_file(&log, metrics.audit_lost()).expect("an audit log"));
        let mut config = ServiceConfig::new(name);
        // As in production: connections are served by a process of their own.
        let options = WorkerOptions {
            program: env!("CARGO_BIN_EXE_rekindle").into(),
            restarts: metrics.network_worker_restarts(),
        };
        let worker = Worker::when_needed(options, &wishes.network, &wishes.gateway);
        (config.network, config.gateway) = (wishes.network.through(worker), wishes.gateway);
        config.audit = Arc::clone(&audit);
        (wishes.service)(&mut config);
        let service = Service::new(config, pool, wishes.ledger, metrics);
        let tokens = wishes.tokens.map(|path| TokenFile::open(&path).expect("tokens"));
        let authenticator = Authenticator::new(tokens, wishes.socket_requires_token).expect("a thread");
        let options = ServerOptions {
            connections: wishes.connections,
            max_streams: wishes.max_streams,
            facts: HostFacts { engine: "fake 1".into(), unenforced: vec!["disk".into()] },
        };
        let server = Server::new(service.clone(), Arc::clone(&authenticator), Arc::clone(&audit), options)
            .await
            .expect("a server");
        let handle = server.handle();
        let socket = dir.path().join("rekindle.sock");
        let mut listeners = Listeners::default().socket(&socket, 0o600, None).await.expect("a socket");
        if let Some(files) = &wishes.tls {
            let any = "127.0.0.1:0".parse().expect("an address");
            listeners = listeners.tcp(any, files).await.expect("a port");
        }
        let (tcp, tls) = (listeners.tcp_address(), listeners.tls());
        let serving = tokio::spawn(async move { server.serve(listeners).await.expect("served") });
        Self { engine, guests, service, handle, serving, tcp, tls, authenticator, audit, dir }
    }

    pub fn socket(&self) -> PathBuf {
        self.dir.path().join("rekindle.sock")
    }

    /// A client on a connection of its own.
    pub async fn client(&self) -> Client {
        self.client_with(None).await
    }

    pub async fn client_with(&self, token: Option<&str>) -> Client {
        Client::connect(&Target::Socket(self.socket()), token).await.expect("connected")
    }

    /// A sandbox and its guest.
    pub async fn sandbox(&self, client: &mut Client) -> (String, Guest) {
        self.sandbox_with(client, v1::CreateSandboxRequest::default()).await
    }

    pub async fn sandbox_with(
        &self,
        client: &mut Client,
        request: v1::CreateSandboxRequest,
    ) -> (String, Guest) {
        let created = client.sandboxes.create(request).await.expect("created").into_inner();
        (created.id, self.guests.all().pop().expect("a guest"))
    }

    /// The machine that was started last.
    pub fn machine(&self) -> FakeControl {
        self.engine.machines().pop().expect("a machine")
    }

    /// Everything the audit log says so far.
    pub fn audit(&self) -> Vec<Value> {
        assert!(self.audit.flush(), "the audit log can be written");
        let text = fs::read_to_string(self.dir.path().join("audit.jsonl")).expect("an audit log");
        text.lines().map(|line| serde_json::from_str(line).expect("a line of JSON")).collect()
    }
}

async fn template(dir: &Path, data: &Path, host: &Arc<VmHost>, parked: u32, root: bool) -> PooledTemplate {
    let store = Store::open(data).expect("a store");
    let artifact = |file: &str| {
        let path = dir.join(file);
        fs::write(&path, file).expect("written");
        Artifact { path, sha256: "0".repeat(64), packages: Arc::default() }
    };
    let text = format!(
        "description = \"a test\"\nimage = \"tiny\"\nmemory_mib = {MIB}\nscratch_mib = 16\nvcpus = 2\nroot = {root}\n"
    );
    let name: TemplateName = "tiny".parse().expect("a name");
    let recipe = Recipe::parse(&name, &text).expect("a recipe");
    let source = TemplateSource { recipe, kernel: artifact("kernel"), image: artifact("image") };
    let built = source.build(host, &store, &|_| {}).await.expect("built");
    let parked = Watermarks { low: parked, high: parked };
    PooledTemplate { source, snapshot: Arc::new(built.snapshot), parked, prespawned: 0 }
}

/// Adds a token to a file and returns its secret.
pub fn token(file: &Path, id: &str, tenant: &str, scopes: &[Scope], quota: Quota) -> String {
    token_with(file, id, tenant, scopes, quota, &[])
}

/// Adds a token that allows these network policies.
pub fn token_with(
    file: &Path,
    id: &str,
    tenant: &str,
    scopes: &[Scope],
    quota: Quota,
    networks: &[&str],
) -> String {
    let new = NewToken {
        id: id.parse().expect("an id"),
        tenant: tenant.into(),
        scopes: scopes.to_vec(),
        quota,
        networks: networks.iter().map(|name| (*name).to_owned()).collect(),
        gateway: networks.iter().map(|name| (*name).to_owned()).collect(),
        root: true,
        expires: None,
    };
    tokens::create(file, &new).expect("a token").secret.reveal().to_owned()
}

/// A shell line in a sandbox.
pub fn shell(sandbox: &str, line: &str) -> v1::ExecuteRequest {
    v1::ExecuteRequest {
        sandbox: sandbox.into(),
        program: Some(v1::Program { program: Some(v1::program::Program::Shell(line.into())) }),
        ..v1::ExecuteRequest::default()
    }
}

/// What a shell line printed.
pub async fn output(client: &mut Client, sandbox: &str, line: &str) -> String {
    let done = client.sandboxes.execute(shell(sandbox, line)).await.expect("executed").into_inner();
    done.stdout.expect("an output").text
}

/// The detail every error has.
pub fn detail(status: &Status) -> ErrorDetail {
    rekindle_api::detail(status).unwrap_or_else(|| panic!("no detail in {status:?}"))
}

/// The detail of a call that must fail in this way.
#[track_caller]
pub fn refused<T: std::fmt::Debug>(
    result: Result<Response<T>, Status>,
    code: Code,
    reason: ErrorReason,
) -> ErrorDetail {
    let status = result.expect_err("it must be refused");
    let detail = rekindle_api::detail(&status).unwrap_or_else(|| panic!("no detail in {status:?}"));
    assert_eq!((status.code(), detail.reason()), (code, reason), "{}", status.message());
    detail
}

/// Waits until something is so.
pub async fn until(what: &str, so: impl Fn() -> bool) {
    let waiting = async {
        while !so() {
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    };
    tokio::time::timeout(SOON, waiting).await.unwrap_or_else(|_| panic!("never: {what}"));
}

pub async fn in_time<T>(what: &str, doing: impl Future<Output = T>) -> T {
    tokio::time::timeout(SOON, doing).await.unwrap_or_else(|_| panic!("never: {what}"))
}
