//! A supervisor on the fake engine that serves its socket, and clients of the protocol. Every test of this binary begins
//! here.

use std::collections::BTreeMap;
use std::ops::Deref;
use std::path::Path;
use std::process::Stdio;

use rekindle::config::tokens::Scope;
use rekindle::network::Egress;
use rekindle::service::ServiceConfig;
use rekindle_api::v1::timeline_outcome::Outcome;
use rekindle_api::v1::{SandboxTimelineRequest, TimelineOutcome};
use rekindle_fake_host::{FakeSupervisor, Wishes, add_token, new_token};
use rekindle_test_support::wait::{in_time, until_answer};
use serde_json::{Value, json};
use tokio::io::{AsyncBufReadExt as _, AsyncReadExt as _, AsyncWriteExt as _, BufReader, Lines};
use tokio::process::{Child, ChildStdin, ChildStdout, Command};

/// What the image of the supervisor's template has.
const PACKAGES: [&str; 5] =
    ["git 1:2.47.3-1", "python3 3.13.5-1", "pip:numpy 2.4.6", "node v24.19.0", "npm:typescript 5.9.3"];
/// The version of the protocol that these tests speak.
pub const VERSION: &str = "2025-06-18";

/// A supervisor that serves.
pub struct Place {
    supervisor: FakeSupervisor,
    /// Secrets of tokens that may do everything with the sandboxes of their tenant, and have no network.
    pub acme: String,
    pub other: String,
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
        Self::with(|_| {}).await
    }

    pub async fn with(service: fn(&mut ServiceConfig)) -> Self {
        let dir = tempfile::tempdir().expect("a directory");
        let tokens = dir.path().join("tokens.toml");
        let (acme, other) = (token_of(&tokens, "acme"), token_of(&tokens, "other"));
        let policy = toml::from_str("mode = \"allow\"\npresets = [\"pypi\"]").expect("a policy");
        let network = Egress::new(&[("build".to_owned(), policy)].into(), &BTreeMap::new());
        let wishes = Wishes {
            packages: &PACKAGES,
            templates: &["bare"],
            service,
            network: network.expect("policies"),
            tokens: Some(tokens),
            ..Wishes::default()
        };
        Self { supervisor: FakeSupervisor::start(wishes).await, acme, other, dir }
    }

    /// `rekindle` with these words, against this server.
    pub fn rekindle(&self, words: &[&str]) -> Command {
        let mut command = Command::new(env!("CARGO_BIN_EXE_rekindle"));
        command.args(words).env("REKINDLE_SERVER", format!("unix:{}", self.socket.display()));
        command.env_remove("REKINDLE_TOKEN").env_remove("REKINDLE_LOG").kill_on_drop(true);
        command
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

    /// Waits until an execution in a sandbox has ended because its caller went away.
    pub async fn cancelled(&self, sandbox: &str) {
        let mut client = self.client().await;
        until_answer("it is killed", async || {
            let request = SandboxTimelineRequest { sandbox: sandbox.to_owned(), ..Default::default() };
            let told = client.sandboxes.timeline(request).await.expect("told").into_inner();
            let cancelled =
                |outcome: &_| matches!(outcome, TimelineOutcome { outcome: Some(Outcome::Cancelled(_)) });
            let mut executed = told.entries.iter().filter(|entry| entry.call == "execute");
            executed.any(|entry| entry.outcome.as_ref().is_some_and(cancelled)).then_some(())
        })
        .await;
    }

    /// How many sandboxes have not ended.
    pub fn alive(&self) -> usize {
        self.service.overview().sandboxes
    }
}

fn token_of(file: &Path, tenant: &str) -> String {
    add_token(file, &new_token(tenant, tenant, &[Scope::Create, Scope::Exec, Scope::Files]))
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
