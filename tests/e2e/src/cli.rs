//! The real `rekindle` program, run as a person would.
//!
//! It is `$REKINDLE_BIN`, or the one beside this test program: `cargo test --workspace`, and so
//! `cargo xtask test`, builds it there first. With `-p rekindle-e2e` alone cargo does not, so build it
//! yourself then: `cargo build -p rekindle`.

use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::time::Duration;

use tokio::io::AsyncWriteExt as _;
use tokio::process::{Child, Command};
use tokio::time::timeout;

use crate::lab::{ENGINE_ENV, Lab, engine};

/// Longest a command may take on a slow, busy host.
const PATIENCE: Duration = Duration::from_secs(300);

/// How a command ended.
#[derive(Debug)]
pub struct Ended {
    /// Its exit code; `None` when a signal ended it.
    pub code: Option<i32>,
    /// Its standard output.
    pub stdout: String,
    /// Its standard error.
    pub stderr: String,
}

impl Ended {
    /// Its standard output as JSON.
    ///
    /// # Panics
    /// When it is none.
    #[must_use]
    pub fn json(&self) -> serde_json::Value {
        serde_json::from_str(&self.stdout).unwrap_or_else(|error| panic!("{error}: {self:?}"))
    }

    /// Asserts that this is a failure of `rekindle`'s own that says `words` and what to do about it.
    ///
    /// # Panics
    /// When it is not.
    pub fn assert_own_failure(&self, words: &str) {
        assert_eq!(self.code, Some(125), "{self:?}");
        assert!(self.stderr.starts_with("error: "), "{self:?}");
        assert!(self.stderr.contains(words), "{words:?} is not in {self:?}");
        assert!(self.stderr.contains("hint: "), "{self:?}");
        assert_eq!(self.stdout, "");
    }
}

/// The program.
///
/// # Panics
/// When it is not built.
#[must_use]
pub fn program() -> PathBuf {
    let beside = || {
        let own = std::env::current_exe().expect("a path");
        own.parent().and_then(Path::parent).expect("target/<profile>/deps").join("rekindle")
    };
    let path = std::env::var_os("REKINDLE_BIN").map_or_else(beside, PathBuf::from);
    assert!(path.exists(), "{} is not built\nhint: run `cargo build -p rekindle`", path.display());
    path
}

/// A command on the data in `data`, with nothing on its standard input.
#[must_use]
pub fn command(data: &Path, words: &[&str]) -> Command {
    let mut command = Command::new(program());
    command.args(words).stdin(Stdio::null());
    settle(&mut command, data);
    command
}

/// Makes a command that runs `rekindle`, or is it, use the data in `data` and the engine under test.
pub fn settle(command: &mut Command, data: &Path) {
    command
        .env("REKINDLE_DATA", data)
        .env_remove("REKINDLE_TEMPLATES")
        .env(ENGINE_ENV, engine().to_string())
        .env_remove("REKINDLE_LOG")
        .kill_on_drop(true);
    if let Ok(lab) = Lab::get() {
        command.env("REKINDLE_TEMPLATES", &lab.recipes);
    }
}

/// Runs a command to its end.
///
/// # Panics
/// When it cannot be started or does not end.
pub async fn rekindle(data: &Path, words: &[&str]) -> Ended {
    ended(&mut command(data, words)).await
}

/// A new token's secret, in a tokens file that is made if need be.
///
/// # Panics
/// When there can be none.
pub async fn token(data: &Path, file: &str, id: &str, tenant: &str, scopes: &str) -> String {
    token_as("secret", data, file, id, tenant, scopes).await
}

/// The same in the form of a key of E2B.
///
/// # Panics
/// When there can be none.
pub async fn e2b_key(data: &Path, file: &str, id: &str, tenant: &str, scopes: &str) -> String {
    token_as("e2b_key", data, file, id, tenant, scopes).await
}

async fn token_as(form: &str, data: &Path, file: &str, id: &str, tenant: &str, scopes: &str) -> String {
    let words =
        ["token", "create", "--file", file, "--id", id, "--tenant", tenant, "--scope", scopes, "--json"];
    let made = rekindle(data, &words).await;
    assert_eq!(made.code, Some(0), "{made:?}");
    made.json()[form].as_str().expect("a secret").to_owned()
}

/// Runs a command with these bytes on its standard input.
///
/// # Panics
/// When it cannot be started or does not end.
pub async fn rekindle_fed(data: &Path, words: &[&str], input: &[u8]) -> Ended {
    let mut command = command(data, words);
    let mut child = started(command.stdin(Stdio::piped()));
    let mut stdin = child.stdin.take().expect("a pipe");
    // A command that ends before it has read everything says why itself.
    let fed = stdin.write_all(input).await;
    drop(stdin);
    let ended = collected(child, PATIENCE).await;
    assert!(fed.is_ok() || ended.code != Some(0), "{fed:?}: {ended:?}");
    ended
}

/// Runs a prepared command to its end.
///
/// # Panics
/// When it cannot be started or does not end.
pub async fn ended(command: &mut Command) -> Ended {
    ended_within(PATIENCE, command).await
}

/// Runs a prepared command that may take longer than others to its end.
///
/// # Panics
/// When it cannot be started or does not end in that time.
pub async fn ended_within(patience: Duration, command: &mut Command) -> Ended {
    collected(started(command), patience).await
}

/// Starts a command whose output is collected.
///
/// # Panics
/// When it cannot be started.
pub fn started(command: &mut Command) -> Child {
    command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().expect("started")
}

async fn collected(child: Child, patience: Duration) -> Ended {
    let output = timeout(patience, child.wait_with_output()).await.expect("ends in time").expect("ends");
    Ended {
        code: output.status.code(),
        stdout: String::from_utf8_lossy(&output.stdout).into_owned(),
        stderr: String::from_utf8_lossy(&output.stderr).into_owned(),
    }
}
