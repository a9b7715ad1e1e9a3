//! The calls of the API in the fewest words, for the tests beside it.

use std::time::{Duration, Instant};

use rekindle_api::client::Client;
use rekindle_api::v1::program::Program as Kind;
use rekindle_api::v1::{
    Code, CreateRequest, DestroyRequest, ErrorReason, ExecuteRequest, ExecuteResponse, GetRequest, Language,
    Outcome, Program, Sandbox, SandboxState,
};
use rekindle_api::{Status, detail};

/// Longest a program, or a wait for something to happen, may take on a slow, busy host.
pub const PATIENCE: Duration = Duration::from_secs(240);
/// How often something that has no event is looked at.
const LOOK: Duration = Duration::from_millis(20);

/// A sandbox as it comes.
pub async fn create(client: &Client) -> Sandbox {
    create_with(client, CreateRequest::default()).await
}

/// A sandbox with wishes.
pub async fn create_with(client: &Client, request: CreateRequest) -> Sandbox {
    let request = CreateRequest { queue_millis: millis(PATIENCE), ..request };
    let mut sandboxes = client.sandboxes.clone();
    sandboxes.create(request).await.expect("a sandbox is created").into_inner()
}

/// A line for the shell.
pub fn shell(line: &str) -> Program {
    Program { program: Some(Kind::Shell(line.into())) }
}

/// Python source.
pub fn python(source: &str) -> Program {
    let language = Language::Python.into();
    Program { program: Some(Kind::Code(Code { language, source: source.into(), plain_interpreter: false })) }
}

/// Runs a program, or says why not.
pub async fn execute(client: &Client, sandbox: &str, program: Program) -> Result<ExecuteResponse, Status> {
    let request = ExecuteRequest {
        sandbox: sandbox.into(),
        program: Some(program),
        timeout_millis: millis(PATIENCE),
        ..ExecuteRequest::default()
    };
    Ok(client.sandboxes.clone().execute(request).await?.into_inner())
}

/// Runs a program and returns what it printed.
pub async fn output(client: &Client, sandbox: &str, program: Program) -> String {
    let ended = execute(client, sandbox, program).await.expect("it runs");
    assert_eq!((ended.outcome(), ended.exit_code), (Outcome::Exited, 0), "{ended:?}");
    ended.stdout.unwrap_or_default().text.trim_end().to_owned()
}

/// The sandbox as it is now.
pub async fn get(client: &Client, sandbox: &str) -> Sandbox {
    let request = GetRequest { sandbox: sandbox.into() };
    client.sandboxes.clone().get(request).await.expect("it is known").into_inner()
}

/// The sandbox once it has ended.
pub async fn ended(client: &Client, sandbox: &str) -> Sandbox {
    let began = Instant::now();
    loop {
        let now = get(client, sandbox).await;
        if now.state() == SandboxState::Ended {
            return now;
        }
        assert!(began.elapsed() < PATIENCE, "it does not end: {now:?}");
        tokio::time::sleep(LOOK).await;
    }
}

/// Ends a sandbox.
pub async fn destroy(client: &Client, sandbox: &str) -> Sandbox {
    let request = DestroyRequest { sandbox: sandbox.into() };
    client.sandboxes.clone().destroy(request).await.expect("it is destroyed").into_inner()
}

/// The typed reason of a failure.
pub fn reason(status: &Status) -> ErrorReason {
    detail(status).unwrap_or_else(|| panic!("{status:?} has no detail")).reason()
}

/// A duration as the API wants it.
pub fn millis(duration: Duration) -> u64 {
    duration.as_millis().try_into().expect("a sane duration")
}

/// Waits for something that has no event.
pub async fn until(what: &str, reached: impl Fn() -> bool) {
    let began = Instant::now();
    while !reached() {
        assert!(began.elapsed() < PATIENCE, "{what}");
        tokio::time::sleep(LOOK).await;
    }
}
