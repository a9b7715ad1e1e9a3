//! The published Python package `mcp` as the client, over both transports.

use std::path::Path;
use std::process::Stdio;

use rekindle_test_support::skip;
use rekindle_test_support::wait::in_time;
use tokio::io::{AsyncBufReadExt as _, BufReader};

use crate::place::Place;
use crate::python::Packages;

/// The client of the protocol's makers.
const REQUIREMENTS: &str = include_str!("../../../tests/e2e/tests/service/mcp_requirements.txt");

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_published_client_finds_and_calls_the_tools() {
    let packages = match Packages::fetch(REQUIREMENTS).await {
        Ok(packages) => packages,
        Err(reason) => skip!("no Python with the package mcp: {reason}"),
    };
    let place = Place::new().await;
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../tests/e2e/tests/service");
    let server = format!("unix:{}", place.socket.display());
    let words = ["mcp", "--listen", "127.0.0.1:0"];
    let mut served =
        place.rekindle(&words).stdin(Stdio::null()).stderr(Stdio::piped()).spawn().expect("started");
    let mut lines = BufReader::new(served.stderr.take().expect("a pipe")).lines();
    let line = in_time("it listens", lines.next_line()).await.expect("read").expect("a line");
    let url = line.split_whitespace().last().expect("an address");
    let env = [
        ("REKINDLE", env!("CARGO_BIN_EXE_rekindle")),
        ("REKINDLE_SERVER", server.as_str()),
        ("REKINDLE_TOKEN", place.acme.as_str()),
        ("REKINDLE_MCP_URL", url),
        ("REKINDLE_TEST_GUEST", "fake"),
    ];
    let said = packages.printed(&folder, &env, &["mcp_client.py"]).await;
    assert!(said.contains("stdio: whole") && said.contains("http: whole"), "{said}");
    assert_eq!(place.alive(), 0, "what the client made has ended");
}
