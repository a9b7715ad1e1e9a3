//! The calls of the API in the fewest words, for the tests beside it.

use std::time::Duration;

use rekindle_api::client::Client;
use rekindle_api::v1::execution_outcome::Outcome;
use rekindle_api::v1::program::Program as Kind;
use rekindle_api::v1::{
    Code, CreateSandboxRequest, DestroySandboxRequest, ErrorReason, ExecuteRequest, ExecuteResponse,
    GetSandboxRequest, Language, Program, Sandbox, SandboxState,
};
use rekindle_api::{Status, detail};
use rekindle_test_support::wait::{PATIENCE, until_answer};

/// A sandbox as it comes.
pub async fn create(client: &Client) -> Sandbox {
    create_with(client, CreateSandboxRequest::default()).await
}

/// A sandbox with wishes.
pub async fn create_with(client: &Client, request: CreateSandboxRequest) -> Sandbox {
    let request = CreateSandboxRequest { queue_timeout: time(PATIENCE), ..request };
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
        timeout: time(PATIENCE),
        ..ExecuteRequest::default()
    };
    Ok(client.sandboxes.clone().execute(request).await?.into_inner())
}

/// Runs a program and returns what it printed.
pub async fn output(client: &Client, sandbox: &str, program: Program) -> String {
    let ended = execute(client, sandbox, program).await.expect("it runs");
    assert_eq!(ended.ended(), Some(Outcome::ExitCode(0)), "{ended:?}");
    ended.stdout.unwrap_or_default().text.trim_end().to_owned()
}

/// The sandbox as it is now.
pub async fn get(client: &Client, sandbox: &str) -> Sandbox {
    let request = GetSandboxRequest { sandbox: sandbox.into() };
    client.sandboxes.clone().get(request).await.expect("it is known").into_inner()
}

/// The sandbox once it has ended.
pub async fn ended(client: &Client, sandbox: &str) -> Sandbox {
    let ended = async || Some(get(client, sandbox).await).filter(|now| now.state() == SandboxState::Ended);
    until_answer("the sandbox ends", ended).await
}

/// Waits until a program in the sandbox has made its file `begun`.
pub async fn begun(client: &Client, sandbox: &str) {
    let look = async || (output(client, sandbox, shell("ls")).await == "begun").then_some(());
    until_answer("it has begun", look).await;
}

/// Ends a sandbox.
pub async fn destroy(client: &Client, sandbox: &str) -> Sandbox {
    let request = DestroySandboxRequest { sandbox: sandbox.into() };
    client.sandboxes.clone().destroy(request).await.expect("it is destroyed").into_inner()
}

/// The typed reason of a failure.
pub fn reason(status: &Status) -> ErrorReason {
    detail(status).unwrap_or_else(|| panic!("{status:?} has no detail")).reason()
}

/// What to do about a failure.
pub fn hint(status: &Status) -> String {
    detail(status).unwrap_or_else(|| panic!("{status:?} has no detail")).hint
}

/// A duration as the API wants it.
pub fn time(duration: Duration) -> Option<rekindle_api::Duration> {
    Some(rekindle_api::time::duration(duration))
}
