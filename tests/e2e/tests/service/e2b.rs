//! E2B's own client, as it is published, against the server: three variables and nothing else.

use rekindle_e2e::cli::e2b_key;
use rekindle_e2e::leftovers;
use rekindle_e2e::python::Packages;
use rekindle_e2e::server::Server;

/// The client, from the package index.
const REQUIREMENTS: &str = "e2b==2.63.0\ne2b-code-interpreter==2.11.5\n";
/// What is done with it.
const CLIENT: &str = include_str!("e2b_client.py");
const INTERPRETER: &str = include_str!("interpreter_client.py");

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_published_client_of_e2b_works_unmodified() {
    works(CLIENT).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_published_code_interpreter_of_e2b_works_unmodified() {
    works(INTERPRETER).await;
}

async fn works(client: &str) {
    let lab = lab!();
    let packages = match Packages::fetch(REQUIREMENTS).await {
        Ok(packages) => packages,
        Err(reason) => rekindle_test_support::skip!("no Python with e2b: {reason}"),
    };
    let _turn = lab.turn().await;
    let data = lab.copy();
    let file = data.path().join("tokens.toml").display().to_string();
    let key = e2b_key(data.path(), &file, "maker", "acme", "create,exec,files").await;
    let tokens = format!("auth.tokens={file}");
    let mut server = Server::start(data.path(), &[&tokens, "http.listen=127.0.0.1:0"]).await;
    let url = server.http().await;
    let env = [("E2B_API_KEY", key.as_str()), ("E2B_API_URL", &url), ("E2B_SANDBOX_URL", &url)];
    let stdout = packages.printed(data.path(), &env, &["-c", client]).await;
    assert!(stdout.ends_with("done\n"), "{stdout}");
    assert!(!server.lines().join("\n").contains(&key), "a secret is in the log");
    server.stop(&leftovers::machines(data.path())).await;
}
