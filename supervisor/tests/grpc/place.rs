//! A whole supervisor on the fake engine, with a real server in front of it. Every test of this binary begins
//! here.

use std::ops::Deref;
use std::path::Path;
use std::time::Duration;

use rekindle::agent::{ExecutionClock, GuestUser, Program};
use rekindle::config::tokens::{NewToken, Quota, Scope};
use rekindle::engine::fake::FakeControl;
use rekindle::service::ExecuteSpec;
use rekindle_api::client::Client;
use rekindle_api::v1::{self, ErrorDetail, ErrorReason};
use rekindle_api::{Code, Status};
use rekindle_fake_guest::Guest;
pub use rekindle_fake_host::Wishes;
use rekindle_fake_host::{FakeSupervisor, add_token, new_token};
use tonic::Response;

/// Milliseconds as the API has them.
pub fn millis(millis: u64) -> Option<rekindle_api::Duration> {
    Some(rekindle_api::time::duration(Duration::from_millis(millis)))
}

/// A supervisor that serves.
pub struct Place {
    pub supervisor: FakeSupervisor,
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
        // As in production: connections are served by a process of their own.
        let worker = Some(env!("CARGO_BIN_EXE_rekindle").into());
        Self { supervisor: FakeSupervisor::start(Wishes { worker, vcpus: 2, ..wishes }).await }
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
        (created.id, self.host.guests.all().pop().expect("a guest"))
    }

    /// The machine that was started last.
    pub fn machine(&self) -> FakeControl {
        self.host.engine.machines().pop().expect("a machine")
    }
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
    let networks: Vec<String> = networks.iter().map(|name| (*name).to_owned()).collect();
    add_token(file, &NewToken { quota, gateway: networks.clone(), networks, ..new_token(id, tenant, scopes) })
}

/// A shell line in a sandbox.
pub fn shell(sandbox: &str, line: &str) -> v1::ExecuteRequest {
    v1::ExecuteRequest {
        sandbox: sandbox.into(),
        program: Some(v1::Program { program: Some(v1::program::Program::Shell(line.into())) }),
        ..v1::ExecuteRequest::default()
    }
}

/// The same for the service itself.
pub fn spec(line: &str, timeout: Duration) -> ExecuteSpec {
    ExecuteSpec {
        program: Program::Shell(line.into()),
        user: GuestUser::User,
        plain_interpreter: false,
        env: Default::default(),
        cwd: String::new(),
        timeout: Some(timeout),
        memory_bytes: 0,
        output_limit: None,
        clock: ExecutionClock::default(),
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
