//! Clients in another language, made only from what the server says about itself by reflection: one that uses
//! everything, and the examples.

use std::path::Path;

use rekindle_e2e::leftovers;
use rekindle_e2e::python::Packages;
use rekindle_e2e::server::Server;

/// What the client needs from the package index.
const REQUIREMENTS: &str = include_str!("requirements.txt");
/// The client itself.
const CLIENT: &str = include_str!("client.py");

/// The packages, or the end of the test as a reported skip.
macro_rules! packages {
    () => {
        match Packages::fetch(REQUIREMENTS).await {
            Ok(packages) => packages,
            Err(reason) => rekindle_test_support::skip!("no Python with grpcio: {reason}"),
        }
    };
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_python_client_made_from_reflection_alone_uses_a_sandbox_from_beginning_to_end() {
    let lab = lab!();
    let packages = packages!();
    let _turn = lab.turn().await;
    let data = lab.copy();
    let server = Server::start(data.path(), &[]).await;
    let stdout = packages.printed(data.path(), &[], &["-c", CLIENT, &server.address()]).await;
    assert!(stdout.ends_with("done\n"), "{stdout}");
    server.stop(&leftovers::machines(data.path())).await;
}

/// The page with a client in Python.
const GETTING_STARTED: &str = include_str!("../../../../docs/getting-started.md");

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_client_of_the_documents_does_what_it_says_each_time() {
    let lab = lab!();
    let packages = match Packages::fetch("grpcio==1.85.1\ngrpcio-tools==1.85.1\n").await {
        Ok(packages) => packages,
        Err(reason) => rekindle_test_support::skip!("no Python with grpcio-tools: {reason}"),
    };
    let _turn = lab.turn().await;
    let data = lab.copy();
    let server = Server::start(data.path(), &[]).await;
    let (_, client) = GETTING_STARTED.split_once("```python\n").expect("a client");
    let (client, _) = client.split_once("```").expect("its end");
    let checkout = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    for _ in 0..2 {
        let stdout = packages.printed(&checkout, &[], &["-c", client, &server.address()]).await;
        assert_eq!(stdout, "exit_code 0 42\nb'hello\\n'\n");
    }
    server.stop(&leftovers::machines(data.path())).await;
}

/// Every example, and what it prints besides figures of its own.
const EXAMPLES: [(&str, &[&str]); 5] = [
    ("one_execution.py", &["it printed 42", "it ended with exit_code 3", "it took "]),
    ("files.py", &["uploaded 11 bytes", "lines: 2", "done has ['list.txt']", "it reads ['milk', 'bread']"]),
    ("streaming.py", &["it says: who are you?", "it says: hello a program", "it ended with 0"]),
    ("chart.py", &["61 sold in 4 months", "chart.svg has 4 bars"]),
    (
        "retry.py",
        &[
            "the same sandbox: True",
            "lines in the log: 1 - it ran",
            "lines in the log: 1 - an earlier answer",
            "not repeated: NOT_FOUND",
        ],
    ),
];

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_examples_do_what_they_say() {
    let lab = lab!();
    let packages = packages!();
    let _turn = lab.turn().await;
    let data = lab.copy();
    let server = Server::start(data.path(), &[]).await;
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../examples");
    let elsewhere = tempfile::tempdir().expect("a directory");
    for (name, says) in EXAMPLES {
        let program = folder.join(name).display().to_string();
        let stdout = packages.printed(elsewhere.path(), &[], &[&program, &server.address()]).await;
        let mut rest = stdout.as_str();
        for word in says {
            let at = rest.find(word).unwrap_or_else(|| panic!("{name} does not say {word:?}: {stdout}"));
            rest = &rest[at + word.len()..];
        }
    }
    server.stop(&leftovers::machines(data.path())).await;
}
