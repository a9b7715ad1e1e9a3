//! A whole supervisor on the fake engine with the HTTP front before it, and a client. Every test of this binary begins
//! here.

use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::ops::Deref;
use std::path::PathBuf;
use std::sync::Arc;

use bytes::Bytes;
use http::{HeaderMap, HeaderName, HeaderValue, Request, StatusCode};
use http_body_util::{BodyExt as _, Full};
use hyper::client::conn::http1;
use hyper_util::rt::TokioIo;
use rekindle::config::tokens::{self, NewToken, Quota, Scope};
use rekindle::door::{ConnectionLimits, TlsFiles};
use rekindle::http::{Front, FrontOptions, HttpHandle, HttpListener, HttpServer};
use rekindle::network::Egress;
use rekindle::pool::PoolConfig;
use rekindle::service::ServiceConfig;
use rekindle_fake_host::{self as fake, FakeSupervisor, MEMORY_MIB, add_token, new_token};
use rekindle_test_support::wait::{in_time, until_answer};
use serde_json::Value;
use tokio::net::TcpStream;
use tokio::task::JoinHandle;

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
            tls: None,
            quota: Quota::default(),
            networks: Vec::new(),
            root: true,
        }
    }
}

/// A supervisor that serves.
pub struct Place {
    supervisor: FakeSupervisor,
    pub address: SocketAddr,
    /// The address of gRPC where there is TLS.
    pub grpc_address: Option<SocketAddr>,
    pub handle: HttpHandle,
    pub serving: JoinHandle<()>,
    /// The secret of a token of the tenant `acme` that may do everything with its own sandboxes.
    pub key: String,
    tokens: PathBuf,
    /// Where the tokens are.
    #[expect(dead_code, reason = "is there as long as the place is")]
    dir: tempfile::TempDir,
}

impl Deref for Place {
    type Target = FakeSupervisor;

    fn deref(&self) -> &FakeSupervisor {
        &self.supervisor
    }
}

impl Place {
    pub async fn new() -> Self {
        Self::with(Wishes::default()).await
    }

    pub async fn with(wishes: Wishes) -> Self {
        let dir = tempfile::tempdir().expect("a directory");
        let tokens = dir.path().join("tokens.toml");
        let token = NewToken {
            quota: wishes.quota,
            gateway: wishes.networks.clone(),
            networks: wishes.networks,
            root: wishes.root,
            ..new_token("good", "acme", &[Scope::Create, Scope::Exec, Scope::Files])
        };
        let key = add_token(&tokens, &token);
        let supervisor = FakeSupervisor::start(fake::Wishes {
            pool: PoolConfig::new(MEMORY_MIB * wishes.machines, 1_000_000),
            service: wishes.service,
            network: wishes.network,
            connections: wishes.connections.clone(),
            tokens: Some(tokens.clone()),
            socket_requires_token: true,
            tls: wishes.tls.clone(),
            ..fake::Wishes::default()
        })
        .await;
        let FakeSupervisor { service, authenticator, audit, api, .. } = &supervisor;
        let (authenticator, audit) = (Arc::clone(authenticator), Arc::clone(audit));
        let front = Front::new(service.clone(), authenticator, audit, wishes.front).with_api(Arc::clone(api));
        let server = HttpServer::new(front, wishes.connections, 128);
        let any = "127.0.0.1:0".parse().expect("an address");
        let listener = HttpListener::bind(any, wishes.tls).await.expect("a port");
        let address = listener.address().expect("an address");
        let (grpc_address, handle) = (supervisor.tcp, server.handle());
        let serving = tokio::spawn(server.serve(listener));
        Self { supervisor, address, grpc_address, handle, serving, key, tokens, dir }
    }

    /// Adds a token and has the server know it.
    pub async fn token(&self, id: &str, tenant: &str, scopes: &[Scope]) -> String {
        let secret = add_token(&self.tokens, &new_token(id, tenant, scopes));
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
        until_answer("the tokens are read again", async || {
            let answer = self.get_as(secret, "/v2/sandboxes").await;
            ((answer.status != StatusCode::UNAUTHORIZED) == known).then_some(())
        })
        .await;
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
