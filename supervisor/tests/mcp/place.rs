//! A supervisor on the fake engine that serves its socket, and clients of the protocol. Every test of this binary begins
//! here.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::process::Stdio;
use std::sync::Arc;
use std::time::Duration;

use rekindle::config::tokens::{self, NewToken, Quota, Scope, TokenFile};
use rekindle::door::{Authenticator, ConnectionLimits};
use rekindle::grpc::{HostFacts, Listeners, ServeError, Server, ServerOptions};
use rekindle::network::Egress;
use rekindle::pool::{Pool, PoolConfig};
use rekindle::service::{Ledger, Service, ServiceConfig};
use rekindle::telemetry::{Audit, Metrics};
use rekindle_api::client::{Client, Target};
use rekindle_api::v1::timeline_outcome::Outcome;
use rekindle_api::v1::{TimelineEntry, TimelineOutcome};
use rekindle_fake_host::{FakeHost, MEMORY_MIB};
use serde_json::{Value, json};
use tokio::io::{AsyncBufReadExt as _, AsyncReadExt as _, AsyncWriteExt as _, BufReader, Lines};
use tokio::process::{Child, ChildStdin, ChildStdout, Command};
use tokio_util::task::AbortOnDropHandle;

/// Longer than anything takes, also on a busy machine.
pub const SOON: Duration = Duration::from_secs(60);
/// The version of the protocol that these tests speak.
pub const VERSION: &str = "2025-06-18";

/// A supervisor that serves.
pub struct Place {
    pub host: FakeHost,
    pub service: Service,
    pub socket: PathBuf,
    /// Secrets of tokens that may do everything with the sandboxes of their tenant, and have no network.
    pub acme: String,
    pub other: String,
    #[expect(dead_code, reason = "serves as long as the place is there")]
    serving: AbortOnDropHandle<Result<(), ServeError>>,
}

impl Place {
    pub async fn new() -> Self {
        Self::with(|_| {}).await
    }

    pub async fn with(change: fn(&mut ServiceConfig)) -> Self {
        let host = FakeHost::new();
        let mut template = host.template("tiny", 0, 0, 0).await;
        let packages = [
            "git 1:2.47.3-1",
            "python3 3.13.5-1",
            "pip:numpy 2.4.6",
            "node v24.19.0",
            "npm:typescript 5.9.3",
        ];
        template.source.image.packages = packages.map(str::to_owned).into();
        let other = host.template("bare", 0, 0, 0).await;
        let name = template.name().clone();
        let budget = PoolConfig::new(MEMORY_MIB * 64, 1_000_000);
        let pool = Pool::start(Arc::clone(&host.host), vec![template, other], budget);
        let metrics = Arc::new(Metrics::new());
        let audit = Arc::new(Audit::to_log());
        let mut config = ServiceConfig::new(name);
        let policy = toml::from_str("mode = \"allow\"\npresets = [\"pypi\"]").expect("a policy");
        config.network =
            Egress::new(&[("build".to_owned(), policy)].into(), &BTreeMap::new()).expect("policies");
        change(&mut config);
        let service = Service::new(config, pool, Ledger::in_memory(), metrics);
        let tokens = host.dir.path().join("tokens.toml");
        let (acme, other_tenant) = (add_token(&tokens, "acme"), add_token(&tokens, "other"));
        let file = TokenFile::open(&tokens).expect("tokens");
        let authenticator = Authenticator::new(Some(file), false).expect("a thread");
        let options = ServerOptions {
            connections: ConnectionLimits::default(),
            max_streams: 128,
            facts: HostFacts { engine: "fake".into(), unenforced: Vec::new() },
        };
        let server = Server::new(service.clone(), authenticator, audit, options).await.expect("a server");
        let socket = host.dir.path().join("rekindle.sock");
        let listeners = Listeners::default().socket(&socket, 0o600, None).await.expect("a socket");
        let serving = AbortOnDropHandle::new(tokio::spawn(server.serve(listeners)));
        Self { host, service, socket, acme, other: other_tenant, serving }
    }

    /// `rekindle` with these words, against this server.
    pub fn rekindle(&self, words: &[&str]) -> Command {
        let mut command = Command::new(env!("CARGO_BIN_EXE_rekindle"));
        command.args(words).env("REKINDLE_SERVER", format!("unix:{}", self.socket.display()));
        command.env_remove("REKINDLE_TOKEN").env_remove("REKINDLE_LOG").kill_on_drop(true);
        command
    }

    /// A client that is no model's.
    pub async fn client(&self) -> Client {
        Client::connect(&Target::Socket(self.socket.clone()), None).await.expect("connected")
    }

    /// A session over standard input and output that has begun.
    pub async fn session(&self, words: &[&str]) -> Session {
        let mut session = self.silent_session(words);
        let began = session.ask("initialize", beginning()).await;
        assert_eq!(began["result"]["serverInfo"]["name"], "rekindle", "{began}");
        session.tell("notifications/initialized").await;
        session
    }

    /// One that has not.
    pub fn silent_session(&self, words: &[&str]) -> Session {
        let words: Vec<&str> = ["mcp"].iter().chain(words).copied().collect();
        let mut command = self.rekindle(&words);
        command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
        let mut child = command.spawn().expect("started");
        let input = child.stdin.take().expect("a pipe");
        let output = BufReader::new(child.stdout.take().expect("a pipe")).lines();
        Session { child, input: Some(input), output, next: 0 }
    }

    /// How many sandboxes have not ended.
    pub fn alive(&self) -> usize {
        self.service.overview().sandboxes
    }
}

fn add_token(file: &std::path::Path, tenant: &str) -> String {
    let new = NewToken {
        id: tenant.parse().expect("an id"),
        tenant: tenant.into(),
        scopes: vec![Scope::Create, Scope::Exec, Scope::Files],
        quota: Quota::default(),
        gateway: Vec::new(),
        networks: Vec::new(),
        root: true,
        expires: None,
    };
    tokens::create(file, &new).expect("a token").secret.reveal().to_owned()
}

/// What begins a session.
pub fn beginning() -> Value {
    json!({"protocolVersion": VERSION, "capabilities": {}, "clientInfo": {"name": "test", "version": "1"}})
}

/// A message that asks.
pub fn question(id: u64, method: &str, params: &Value) -> Value {
    json!({"jsonrpc": "2.0", "id": id, "method": method, "params": params})
}

/// A session of `rekindle mcp`.
pub struct Session {
    child: Child,
    input: Option<ChildStdin>,
    output: Lines<BufReader<ChildStdout>>,
    next: u64,
}

impl Session {
    /// Sends bytes as they are.
    pub async fn send(&mut self, bytes: &[u8]) {
        self.input.as_mut().expect("open").write_all(bytes).await.expect("written");
    }

    /// Tells without asking.
    pub async fn tell(&mut self, method: &str) {
        self.send(format!("{}\n", json!({"jsonrpc": "2.0", "method": method})).as_bytes()).await;
    }

    /// Asks, and does not wait.
    pub async fn begin(&mut self, method: &str, params: Value) -> u64 {
        self.next += 1;
        self.send(format!("{}\n", question(self.next, method, &params)).as_bytes()).await;
        self.next
    }

    /// The next message.
    pub async fn next(&mut self) -> Value {
        let line = in_time("an answer", self.output.next_line()).await.expect("read").expect("no end");
        serde_json::from_str(&line).unwrap_or_else(|_| panic!("{line:?} is not JSON"))
    }

    /// Asks and waits.
    pub async fn ask(&mut self, method: &str, params: Value) -> Value {
        let id = self.begin(method, params).await;
        loop {
            let message = self.next().await;
            if message["id"] == id {
                return message;
            }
        }
    }

    /// Calls a tool: its result.
    pub async fn call(&mut self, tool: &str, arguments: Value) -> Value {
        let answer = self.ask("tools/call", json!({"name": tool, "arguments": arguments})).await;
        assert!(answer.get("error").is_none(), "{answer}");
        answer["result"].clone()
    }

    /// Calls a tool that must do it: its text.
    pub async fn done(&mut self, tool: &str, arguments: Value) -> String {
        let result = self.call(tool, arguments).await;
        assert_ne!(result["isError"], true, "{result}");
        text(&result)
    }

    /// Calls a tool that must not: its text.
    pub async fn refused(&mut self, tool: &str, arguments: Value) -> String {
        let result = self.call(tool, arguments).await;
        assert_eq!(result["isError"], true, "{result}");
        text(&result)
    }

    /// A sandbox with what the server usually gives.
    pub async fn sandbox(&mut self) -> String {
        id(&self.done("sandbox_create", json!({})).await)
    }

    /// Ends its input, and returns its exit code and what it said on standard error.
    pub async fn end(mut self) -> (Option<i32>, String) {
        drop(self.input.take());
        self.wait().await
    }

    /// Sends a signal.
    pub fn signal(&self, signal: nix::sys::signal::Signal) {
        let pid = i32::try_from(self.child.id().expect("it runs")).expect("a process id");
        nix::sys::signal::kill(nix::unistd::Pid::from_raw(pid), signal).expect("sent");
    }

    /// Waits for its end.
    pub async fn wait(mut self) -> (Option<i32>, String) {
        let mut stderr = self.child.stderr.take().expect("a pipe");
        let mut said = String::new();
        let status = in_time("the end", async {
            while self.output.next_line().await.expect("read").is_some() {}
            stderr.read_to_string(&mut said).await.expect("text");
            self.child.wait().await.expect("an end")
        })
        .await;
        (status.code(), said)
    }
}

/// The first text of a result.
pub fn text(result: &Value) -> String {
    assert_eq!(result["content"][0]["type"], "text", "{result}");
    result["content"][0]["text"].as_str().expect("text").to_owned()
}

/// The id in what `sandbox_create` says.
pub fn id(made: &str) -> String {
    let id = made.strip_prefix("sandbox ").and_then(|rest| rest.split_once(' ')).expect("an id");
    id.0.to_owned()
}

pub async fn in_time<T>(what: &str, doing: impl Future<Output = T>) -> T {
    tokio::time::timeout(SOON, doing).await.unwrap_or_else(|_| panic!("never: {what}"))
}

/// Whether a call ended because its caller went away.
pub fn cancelled(entry: &TimelineEntry) -> bool {
    matches!(&entry.outcome, Some(TimelineOutcome { outcome: Some(Outcome::Cancelled(_)) }))
}
