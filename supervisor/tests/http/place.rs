//! A whole supervisor on the fake engine with the HTTP front before it, and a client. Every test of this binary begins
//! here.

use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use http::{HeaderMap, HeaderName, HeaderValue, Request, StatusCode};
use http_body_util::{BodyExt as _, Full};
use hyper::client::conn::http1;
use hyper_util::rt::TokioIo;
use rekindle::config::tokens::{self, NewToken, Quota, Scope, TokenFile};
use rekindle::door::{Authenticator, ConnectionLimits, TlsFiles};
use rekindle::grpc::{HostFacts, Listeners, ServeError, Server, ServerOptions};
use rekindle::http::{Api, Front, FrontOptions, HttpHandle, HttpListener, HttpServer};
use rekindle::network::Egress;
use rekindle::pool::{Pool, PoolConfig};
use rekindle::service::{Ledger, Service, ServiceConfig};
use rekindle::telemetry::{Audit, Metrics};
use rekindle_fake_host::{FakeHost, MEMORY_MIB};
use serde_json::Value;
use tokio::net::TcpStream;
use tokio::task::JoinHandle;
use tokio_util::task::AbortOnDropHandle;

/// Longer than anything takes, also on a busy machine.
pub const SOON: Duration = Duration::from_secs(60);
/// The template of the supervisor.
pub const TEMPLATE: &str = "tiny";

/// What a test wants to be different.
pub struct Wishes {
    /// How many machines the host has memory for.
    pub machines: u64,
    pub service: fn(&mut ServiceConfig),
    pub network: Egress,
    pub front: FrontOptions,
    pub connections: ConnectionLimits,
    pub max_streams: u32,
    pub tls: Option<TlsFiles>,
    pub quota: Quota,
    /// Network policies that its tokens allow.
    pub networks: Vec<String>,
    /// Whether they allow root.
    pub root: bool,
}

impl Default for Wishes {
    fn default() -> Self {
        Self {
            machines: 64,
            service: |_| {},
            network: Egress::default(),
            front: FrontOptions::default(),
            connections: ConnectionLimits::default(),
            max_streams: 128,
            tls: None,
            quota: Quota::default(),
            networks: Vec::new(),
            root: true,
        }
    }
}

/// A supervisor that serves.
pub struct Place {
    pub host: FakeHost,
    pub service: Service,
    pub authenticator: Arc<Authenticator>,
    pub address: SocketAddr,
    /// The socket of gRPC, where our own API is as well, and its address where there is TLS.
    pub socket: PathBuf,
    pub grpc_address: Option<SocketAddr>,
    pub handle: HttpHandle,
    pub serving: JoinHandle<()>,
    /// The secret of a token of the tenant `acme` that may do everything with its own sandboxes.
    pub key: String,
    tokens: PathBuf,
    audit: Arc<Audit>,
    #[expect(dead_code, reason = "serves as long as the place is there")]
    on_socket: AbortOnDropHandle<Result<(), ServeError>>,
}

impl Place {
    pub async fn new() -> Self {
        Self::with(Wishes::default()).await
    }

    pub async fn with(wishes: Wishes) -> Self {
        let host = FakeHost::new();
        let template = host.template(TEMPLATE, 0, 0, 0).await;
        let name = template.name().clone();
        let budget = PoolConfig::new(MEMORY_MIB * wishes.machines, 1_000_000);
        let pool = Pool::start(Arc::clone(&host.host), vec![template], budget);
        let metrics = Arc::new(Metrics::new());
        let log = host.dir.path().join("audit.jsonl");
        let audit = Arc::new(Audit::to_file(&log, metrics.audit_lost()).expect("an audit log"));
        let mut config = ServiceConfig::new(name);
        (config.network, config.audit) = (wishes.network, Arc::clone(&audit));
        (wishes.service)(&mut config);
        let service = Service::new(config, pool, Ledger::in_memory(), metrics);
        let tokens = host.dir.path().join("tokens.toml");
        let scopes = [Scope::Create, Scope::Exec, Scope::Files];
        let key = token(&tokens, "good", "acme", &scopes, wishes.quota, wishes.networks, wishes.root);
        let file = TokenFile::open(&tokens).expect("tokens");
        let authenticator = Authenticator::new(Some(file), true).expect("a thread");
        let front = Front::new(service.clone(), Arc::clone(&authenticator), Arc::clone(&audit), wishes.front);
        let options = ServerOptions {
            connections: wishes.connections.clone(),
            max_streams: wishes.max_streams,
            facts: HostFacts { engine: "fake".into(), unenforced: Vec::new() },
        };
        let grpc = Server::new(service.clone(), Arc::clone(&authenticator), Arc::clone(&audit), options);
        let grpc = grpc.await.expect("an API");
        let api = Api::new(grpc.handler()).expect("a description");
        let front = front.with_api(Arc::clone(&api));
        let server = HttpServer::new(front, wishes.connections, wishes.max_streams);
        let socket = host.dir.path().join("api.sock");
        let mut listeners = Listeners::default().socket(&socket, 0o600, None).await.expect("a socket");
        let any = "127.0.0.1:0".parse().expect("an address");
        if let Some(files) = &wishes.tls {
            listeners = listeners.tcp(any, files).await.expect("a port");
        }
        let grpc_address = listeners.tcp_address();
        let on_socket = tokio::spawn(grpc.beside(api.handler()).serve(listeners));
        let listener = HttpListener::bind(any, wishes.tls).await.expect("a port");
        let address = listener.address().expect("an address");
        let handle = server.handle();
        let serving = tokio::spawn(server.serve(listener));
        let on_socket = AbortOnDropHandle::new(on_socket);
        Self {
            host,
            service,
            authenticator,
            address,
            socket,
            grpc_address,
            handle,
            serving,
            key,
            tokens,
            audit,
            on_socket,
        }
    }

    /// Adds a token and has the server know it.
    pub async fn token(&self, id: &str, tenant: &str, scopes: &[Scope]) -> String {
        let secret = token(&self.tokens, id, tenant, scopes, Quota::default(), Vec::new(), true);
        self.known(&secret, true).await;
        secret
    }

    /// Removes a token and has the server know it.
    pub async fn remove_token(&self, id: &str, secret: &str) {
        tokens::remove(&self.tokens, &id.parse().expect("an id")).expect("removed");
        self.known(secret, false).await;
    }

    async fn known(&self, secret: &str, known: bool) {
        self.authenticator.reload();
        let waiting = async {
            while (self.get_as(secret, "/v2/sandboxes").await.status != StatusCode::UNAUTHORIZED) != known {
                tokio::time::sleep(Duration::from_millis(5)).await;
            }
        };
        in_time("the tokens are read again", waiting).await;
    }

    /// Everything the audit log says so far.
    pub fn audit(&self) -> Vec<Value> {
        assert!(self.audit.flush(), "the audit log can be written");
        let text = std::fs::read_to_string(self.host.dir.path().join("audit.jsonl")).expect("an audit log");
        text.lines().map(|line| serde_json::from_str(line).expect("a line of JSON")).collect()
    }

    /// Asks, with headers of the test's own and on a connection of its own.
    pub async fn ask(
        &self,
        method: &str,
        path: &str,
        headers: &[(&str, &str)],
        body: impl Into<Bytes>,
    ) -> Answer {
        let asking = ask(self.address, method, path, headers, body.into());
        in_time(&format!("an answer to {method} {path}"), asking).await
    }

    /// Asks with the key of the tenant `acme`.
    pub async fn get(&self, path: &str) -> Answer {
        self.get_as(&self.key, path).await
    }

    pub async fn get_as(&self, key: &str, path: &str) -> Answer {
        self.ask("GET", path, &[("x-api-key", key)], "").await
    }

    pub async fn post(&self, path: &str, body: &Value) -> Answer {
        self.post_as(&self.key, path, body).await
    }

    pub async fn post_as(&self, key: &str, path: &str, body: &Value) -> Answer {
        let headers = [("x-api-key", key), ("content-type", "application/json")];
        self.ask("POST", path, &headers, body.to_string()).await
    }

    pub async fn delete(&self, path: &str) -> Answer {
        self.ask("DELETE", path, &[("x-api-key", &self.key)], "").await
    }

    /// A sandbox, and what its maker was told.
    pub async fn sandbox(&self, body: Value) -> (String, Value) {
        let mut asked = serde_json::json!({"templateID": "base", "timeout": 300});
        for (key, value) in body.as_object().expect("an object") {
            asked[key] = value.clone();
        }
        let made = self.post("/sandboxes", &asked).await;
        assert_eq!(made.status, StatusCode::CREATED, "{made:?}");
        let id = made.body["sandboxID"].as_str().expect("an id").to_owned();
        (id, made.body)
    }
}

/// What was answered.
#[derive(Debug)]
pub struct Answer {
    pub status: StatusCode,
    pub headers: HeaderMap,
    /// Null where it is no JSON.
    pub body: Value,
}

impl Answer {
    pub fn header(&self, name: &str) -> Option<&str> {
        self.headers.get(name).map(|value| value.to_str().expect("text"))
    }

    /// Checks that it was refused in the form every refusal has.
    #[track_caller]
    pub fn refused(&self, status: u16) -> &str {
        assert_eq!(self.status.as_u16(), status, "{self:?}");
        assert_eq!(self.body["code"], status, "{self:?}");
        self.body["message"].as_str().filter(|message| !message.is_empty()).expect("a message")
    }
}

/// One request on a connection of its own.
pub async fn ask(
    address: SocketAddr,
    method: &str,
    path: &str,
    headers: &[(&str, &str)],
    body: Bytes,
) -> Answer {
    let stream = TcpStream::connect(address).await.expect("connected");
    let (mut sender, connection) = http1::handshake(TokioIo::new(stream)).await.expect("a connection");
    tokio::spawn(connection);
    let mut request = Request::builder().method(method).uri(path).body(Full::new(body)).expect("a request");
    request.headers_mut().insert("host", HeaderValue::from_static("sandboxes.test"));
    for (name, value) in headers {
        let name: HeaderName = name.parse().expect("a name");
        request.headers_mut().insert(name, value.parse().expect("a value"));
    }
    let answer = sender.send_request(request).await.expect("an answer");
    let (parts, body) = answer.into_parts();
    let bytes = body.collect().await.expect("a body").to_bytes();
    let body = serde_json::from_slice(&bytes).unwrap_or(Value::Null);
    Answer { status: parts.status, headers: parts.headers, body }
}

fn token(
    file: &std::path::Path,
    id: &str,
    tenant: &str,
    scopes: &[Scope],
    quota: Quota,
    networks: Vec<String>,
    root: bool,
) -> String {
    let new = NewToken {
        id: id.parse().expect("an id"),
        tenant: tenant.into(),
        scopes: scopes.to_vec(),
        quota,
        gateway: networks.clone(),
        networks,
        root,
        expires: None,
    };
    tokens::create(file, &new).expect("a token").secret.reveal().to_owned()
}

/// A secret as the SDKs take it for a key of E2B.
pub fn e2b_form(secret: &str) -> String {
    let digits: String = secret.bytes().map(|byte| format!("{byte:02x}")).collect();
    format!("e2b_{digits}")
}

/// Lines of the audit log about this method: decision and reason.
pub fn decisions(place: &Place, method: &str) -> Vec<(String, String)> {
    let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
    let lines = place.audit();
    let lines = lines.iter().filter(|line| line["method"] == method);
    lines.map(|line| (text(&line["decision"]), text(&line["reason"]))).collect()
}

/// Pairs as an object's fields.
pub fn fields(value: &Value) -> BTreeMap<String, Value> {
    value.as_object().expect("an object").clone().into_iter().collect()
}

pub async fn in_time<T>(what: &str, doing: impl Future<Output = T>) -> T {
    tokio::time::timeout(SOON, doing).await.unwrap_or_else(|_| panic!("never: {what}"))
}
