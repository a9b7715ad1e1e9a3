//! Programs run in a guest, in the fewest words.

use std::time::Duration;

use rekindle::agent::{Code, ExecuteRequest, Finished, Language, Outcome, Program};
use rekindle::vm::Vm;
use rekindle_test_support::wait::PATIENCE;

/// A line for the shell.
#[must_use]
pub fn shell(line: &str) -> ExecuteRequest {
    request(Program::Shell(line.to_owned()))
}

/// Python source.
#[must_use]
pub fn python(source: &str) -> ExecuteRequest {
    code(Language::Python, source)
}

/// JavaScript source.
#[must_use]
pub fn node(source: &str) -> ExecuteRequest {
    code(Language::Node, source)
}

fn code(language: Language, source: &str) -> ExecuteRequest {
    request(Program::Code(Code { language: language as i32, source: source.to_owned() }))
}

fn request(program: Program) -> ExecuteRequest {
    ExecuteRequest { program: Some(program), ..within(PATIENCE) }
}

fn within(limit: Duration) -> ExecuteRequest {
    ExecuteRequest {
        timeout_millis: u64::try_from(limit.as_millis()).expect("a sane limit"),
        ..ExecuteRequest::default()
    }
}

/// The same program as the guest's root.
#[must_use]
pub fn as_root(request: ExecuteRequest) -> ExecuteRequest {
    ExecuteRequest { user: "root".into(), ..request }
}

/// The same program with a wall-clock limit.
#[must_use]
pub fn limited(request: ExecuteRequest, limit: Duration) -> ExecuteRequest {
    ExecuteRequest { timeout_millis: within(limit).timeout_millis, ..request }
}

/// Runs it to its end.
///
/// # Panics
/// When the conversation fails.
pub async fn run(vm: &Vm, request: ExecuteRequest) -> Finished {
    match vm.agent().run(request).await {
        Ok(finished) => finished,
        Err(error) => panic!("{error:?}; the machine: {:?}\n{}", vm.state(), vm.last_words().await),
    }
}

/// Runs it and returns what it printed.
///
/// # Panics
/// When it fails.
pub async fn output(vm: &Vm, request: ExecuteRequest) -> String {
    let finished = run(vm, request).await;
    assert_eq!(finished.outcome, Outcome::Exited(0), "{}{}", finished.stdout.text, finished.stderr.text);
    finished.stdout.text.trim_end().to_owned()
}

/// Proves that the agent answers and still runs programs.
///
/// # Panics
/// When it does not.
pub async fn answers(vm: &Vm) {
    vm.agent().ping(PATIENCE).await.expect("the agent answers");
    assert_eq!(output(vm, shell("echo alive")).await, "alive");
}
