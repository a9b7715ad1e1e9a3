//! The Python SDK as its users have it: installed with pip, on the socket of a server, without a word of configuration
//! but the address.

use std::path::Path;

use rekindle_e2e::leftovers;
use rekindle_e2e::python::Packages;
use rekindle_e2e::server::Server;

/// What it depends on, from the package index.
const REQUIREMENTS: &str = "httpx==0.28.1\n";
/// What is done with it.
const CLIENT: &str = include_str!("sdk_client.py");

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_python_sdk_uses_a_sandbox_from_beginning_to_end() {
    let lab = lab!();
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../sdk/python");
    let packages = match Packages::fetch(REQUIREMENTS).await {
        Ok(packages) => packages.and(folder.clone()).await,
        Err(reason) => Err(reason),
    };
    let packages = match packages {
        Ok(packages) => packages,
        Err(reason) => rekindle_test_support::skip!("no Python with the SDK: {reason}"),
    };
    let _turn = lab.turn().await;
    let data = lab.copy();
    let server = Server::start(data.path(), &[]).await;
    let env = [("REKINDLE_SERVER", server.address())];
    let env: Vec<_> = env.iter().map(|(name, value)| (*name, value.as_str())).collect();
    let elsewhere = tempfile::tempdir().expect("a directory");
    let stdout = packages.printed(elsewhere.path(), &env, &["-c", CLIENT]).await;
    assert!(stdout.ends_with("done\n"), "{stdout}");
    let readme = std::fs::read_to_string(folder.join("README.md")).expect("a page");
    let examples: Vec<&str> =
        readme.split("```python\n").skip(1).filter_map(|rest| rest.split("```").next()).collect();
    assert!(examples.len() >= 6, "{examples:?}");
    for example in examples {
        packages.printed(elsewhere.path(), &env, &["-c", example]).await;
    }
    server.stop(&leftovers::machines(data.path())).await;
}
