//! A whole supervisor on a fake host, with its API on a socket as `rekindle serve` has it there: what suites of
//! anything in front of the service start from. What is in front beside the API, a suite adds itself.

use std::fs;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use rekindle::config::tokens::{self, NewToken, Quota, Scope, TokenFile};
use rekindle::door::{Authenticator, ConnectionLimits, Tls, TlsFiles};
use rekindle::grpc::{HostFacts, Listeners, Server, ServerHandle, ServerOptions};
use rekindle::http::Api;
use rekindle::network::{Egress, Gateway, Worker, WorkerOptions};
use rekindle::pool::{Pool, PoolConfig};
use rekindle::service::{Caller, Ledger, SandboxView, Service, ServiceConfig, ServiceError, WatchQuery};
use rekindle::telemetry::{Audit, Metrics};
use rekindle_api::client::{Client, Target};
use rekindle_test_support::wait::{in_time, until_answer};
use serde_json::Value;
use tokio_util::task::AbortOnDropHandle;

use crate::{FakeHost, MEMORY_MIB};

/// What a test wants to be different.
pub struct Wishes {
    /// Where the host's data is; else in its directory.
    pub data: Option<PathBuf>,
    /// What the host has to give away.
    pub pool: PoolConfig,
    /// How many machines of the default template, `tiny`, are made ahead.
    pub parked: u32,
    /// How many processors each has.
    pub vcpus: u32,
    /// Whether they allow root.
    pub root: bool,
    /// What its image has.
    pub packages: &'static [&'static str],
    /// The names of more templates.
    pub templates: &'static [&'static str],
    /// What else is decided about the service.
    pub service: fn(&mut ServiceConfig),
    /// What sandboxes may reach.
    pub network: Egress,
    /// What they may be let call.
    pub gateway: Gateway,
    /// The program whose process serves connections; else this process does.
    pub worker: Option<PathBuf>,
    /// Where usage is kept.
    pub ledger: Ledger,
    /// Where the audit log goes; else to a file that [`FakeSupervisor::audit`] reads.
    pub audit: Option<Audit>,
    /// How many connections there may be.
    pub connections: ConnectionLimits,
    /// How many calls at once on each.
    pub max_streams: u32,
    /// The file with tokens.
    pub tokens: Option<PathBuf>,
    /// Whether a caller on the socket has to show one.
    pub socket_requires_token: bool,
    /// With what the API is on a port as well.
    pub tls: Option<TlsFiles>,
}

impl Default for Wishes {
    fn default() -> Self {
        Self {
            data: None,
            pool: PoolConfig::new(MEMORY_MIB * 64, 1_000_000),
            parked: 0,
            vcpus: 1,
            root: true,
            packages: &[],
            templates: &[],
            service: |_| {},
            network: Egress::default(),
            gateway: Gateway::default(),
            worker: None,
            ledger: Ledger::in_memory(),
            audit: None,
            connections: ConnectionLimits::default(),
            max_streams: 128,
            tokens: None,
            socket_requires_token: false,
            tls: None,
        }
    }
}

/// A supervisor that serves until it is dropped.
pub struct FakeSupervisor {
    /// What it is on.
    pub host: FakeHost,
    /// What it serves.
    pub service: Service,
    /// Who it lets in.
    pub authenticator: Arc<Authenticator>,
    /// What it writes of calls.
    pub audit: Arc<Audit>,
    /// The API in JSON.
    pub api: Arc<Api>,
    /// Where it listens.
    pub socket: PathBuf,
    /// The port, where there is TLS.
    pub tcp: Option<SocketAddr>,
    /// The certificates of that port.
    pub tls: Option<Arc<Tls>>,
    /// What stops the server.
    pub handle: ServerHandle,
    /// The server.
    pub serving: AbortOnDropHandle<()>,
}

impl FakeSupervisor {
    /// Starts one.
    pub async fn start(wishes: Wishes) -> Self {
        let host = wishes.data.map_or_else(FakeHost::new, FakeHost::at);
        let mut source = host.source("tiny", &format!("root = {}\n", wishes.root));
        source.recipe.vcpus = wishes.vcpus;
        source.image.packages = wishes.packages.iter().map(|name| (*name).to_owned()).collect();
        let mut config = ServiceConfig::new(source.recipe.name.clone());
        let mut templates = vec![host.pooled(source, wishes.parked, wishes.parked, 0).await];
        for name in wishes.templates {
            templates.push(host.template(name, 0, 0, 0).await);
        }
        let pool = Pool::start(Arc::clone(&host.host), templates, wishes.pool);
        let metrics = Arc::new(Metrics::new());
        let to_file =
            || Audit::to_file(&audit_log(&host), metrics.audit_lost()).expect("an audit log can be written");
        let audit = Arc::new(wishes.audit.unwrap_or_else(to_file));
        config.network = match wishes.worker {
            Some(program) => {
                let options = WorkerOptions { program, restarts: metrics.network_worker_restarts() };
                let worker = Worker::when_needed(options, &wishes.network, &wishes.gateway);
                wishes.network.through(worker)
            }
            None => wishes.network,
        };
        (config.gateway, config.audit) = (wishes.gateway, Arc::clone(&audit));
        (wishes.service)(&mut config);
        let service = Service::new(config, pool, wishes.ledger, metrics);
        let tokens = wishes.tokens.map(|path| TokenFile::open(&path).expect("tokens"));
        let authenticator = Authenticator::new(tokens, wishes.socket_requires_token).expect("a thread");
        let options = ServerOptions {
            connections: wishes.connections,
            max_streams: wishes.max_streams,
            facts: HostFacts { engine: "fake 1".into(), unenforced: vec!["disk".into()] },
        };
        let server = Server::new(service.clone(), Arc::clone(&authenticator), Arc::clone(&audit), options);
        let server = server.await.expect("a server");
        let api = Api::new(server.handler()).expect("a description");
        let server = server.beside(api.handler());
        let handle = server.handle();
        let socket = host.dir.path().join("rekindle.sock");
        let mut listeners = Listeners::default().socket(&socket, 0o600, None).await.expect("a socket");
        if let Some(files) = &wishes.tls {
            let any = "127.0.0.1:0".parse().expect("an address");
            listeners = listeners.tcp(any, files).await.expect("a port");
        }
        let (tcp, tls) = (listeners.tcp_address(), listeners.tls());
        let serving = tokio::spawn(async move { server.serve(listeners).await.expect("served") });
        let serving = AbortOnDropHandle::new(serving);
        Self { host, service, authenticator, audit, api, socket, tcp, tls, handle, serving }
    }

    /// A client on a connection of its own.
    pub async fn client(&self) -> Client {
        self.client_with(None).await
    }

    /// One that shows a token.
    pub async fn client_with(&self, token: Option<&str>) -> Client {
        Client::connect(&Target::Socket(self.socket.clone()), token).await.expect("connected")
    }

    /// Waits until a sandbox is so, and tells how it is then. Whatever changes one is an event.
    pub async fn until_sandbox(&self, id: &str, so: impl Fn(&SandboxView) -> bool) -> SandboxView {
        let query = WatchQuery { sandbox: id.to_owned(), include_existing: true, ..WatchQuery::default() };
        let mut watch = self.service.watch(&Caller::local(), query).await.expect("a sandbox");
        let changed = async {
            loop {
                let event = watch.next().await.expect("nothing was missed").expect("there is a service");
                if so(&event.sandbox) {
                    return event.sandbox;
                }
            }
        };
        in_time("a sandbox is as it should be", changed).await
    }

    /// Waits until so many calls are under way in a sandbox: they keep it from being paused.
    pub async fn until_under_way(&self, id: &str, wanted: usize) {
        let tenant = self.service.get(&Caller::local(), id).await.expect("a sandbox").tenant;
        let owner = Caller { tenant, ..Caller::local() };
        until_answer(&format!("{wanted} calls are under way"), async || {
            match self.service.pause(&owner, id).await {
                Err(ServiceError::UnderWay { calls }) => (calls == wanted).then_some(()),
                other => panic!("nothing is under way: {other:?}"),
            }
        })
        .await;
    }

    /// Everything the audit log says so far.
    #[must_use]
    pub fn audit(&self) -> Vec<Value> {
        assert!(self.audit.flush(), "the audit log can be written");
        let text = fs::read_to_string(audit_log(&self.host)).expect("an audit log");
        text.lines().map(|line| serde_json::from_str(line).expect("a line of JSON")).collect()
    }
}

fn audit_log(host: &FakeHost) -> PathBuf {
    host.dir.path().join("audit.jsonl")
}

/// A token of a tenant that may do this, to sandboxes without a network.
#[must_use]
pub fn new_token(id: &str, tenant: &str, scopes: &[Scope]) -> NewToken {
    NewToken {
        id: id.parse().expect("an id"),
        tenant: tenant.into(),
        scopes: scopes.to_vec(),
        quota: Quota::default(),
        networks: Vec::new(),
        gateway: Vec::new(),
        root: true,
        expires: None,
    }
}

/// Adds a token to a file and returns its secret.
#[must_use]
pub fn add_token(file: &Path, token: &NewToken) -> String {
    tokens::create(file, token).expect("a token").secret.reveal().to_owned()
}
