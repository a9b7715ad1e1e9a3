//! `rekindle mcp` on real machines, used by the client that the makers of the protocol publish.

use std::process::Stdio;

use rekindle_e2e::cli::{command, program, token};
use rekindle_e2e::leftovers;
use rekindle_e2e::python::Packages;
use rekindle_e2e::server::Server;
use tokio::io::{AsyncBufReadExt as _, BufReader};

/// The client, from the package index.
const REQUIREMENTS: &str = include_str!("mcp_requirements.txt");
/// What is done with it.
const CLIENT: &str = include_str!("mcp_client.py");

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_published_client_of_the_protocol_uses_sandboxes() {
    let lab = lab!();
    let packages = match Packages::fetch(REQUIREMENTS).await {
        Ok(packages) => packages,
        Err(reason) => rekindle_test_support::skip!("no Python with the package mcp: {reason}"),
    };
    let _turn = lab.turn().await;
    let data = lab.copy();
    let file = data.path().join("tokens.toml").display().to_string();
    let key = token(data.path(), &file, "maker", "acme", "create,exec,files").await;
    let tokens = format!("auth.tokens={file}");
    let server = Server::start(data.path(), &[&tokens]).await;
    let address = server.address();
    let words = ["mcp", "--server", &address, "--listen", "127.0.0.1:0"];
    let mut served = command(data.path(), &words).stderr(Stdio::piped()).spawn().expect("started");
    let mut lines = BufReader::new(served.stderr.take().expect("a pipe")).lines();
    let line = lines.next_line().await.expect("read").expect("it listens");
    let url = line.split_whitespace().last().expect("an address");
    let program = program().display().to_string();
    let env = [
        ("REKINDLE", program.as_str()),
        ("REKINDLE_SERVER", &address),
        ("REKINDLE_TOKEN", &key),
        ("REKINDLE_MCP_URL", url),
    ];
    let stdout = packages.printed(data.path(), &env, &["-c", CLIENT]).await;
    assert!(stdout.ends_with("done\n"), "{stdout}");
    assert_eq!(server.status().await.sandboxes, 0, "what the client made has ended");
    served.kill().await.expect("it runs");
    assert!(!server.lines().join("\n").contains(&key), "a secret is in the log");
    server.stop(&leftovers::machines(data.path())).await;
}
