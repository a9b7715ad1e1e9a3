//! E2B's own client, as it is published, against the server: three variables and nothing else.

use std::time::Duration;

use rekindle_e2e::Lab;
use rekindle_e2e::cli::e2b_key;
use rekindle_e2e::leftovers;
use rekindle_e2e::node::Modules;
use rekindle_e2e::python::Packages;
use rekindle_e2e::server::Server;

use crate::network::{LARGE_TEMPLATE, large_template};

/// The client, from the package index.
const REQUIREMENTS: &str = "e2b==2.63.0\ne2b-code-interpreter==2.11.5\n";
/// The same in JavaScript.
const PACKAGES: &[&str] = &["e2b@2.51.0", "@e2b/code-interpreter@2.8.0"];
/// What is done with it.
const CLIENT: &str = include_str!("e2b_client.py");
const INTERPRETER: &str = include_str!("interpreter_client.py");
const RICH: &str = include_str!("rich_client.py");
const JAVASCRIPT: &str = include_str!("e2b_client.mjs");
const LARGE: &str = include_str!("e2b_large_client.py");
/// What a server may hold more of while a client works, though it be with a file of 256 MiB, in KiB.
const FLAT_KIB: u64 = 48 << 10;

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_published_client_of_e2b_works_unmodified() {
    works(CLIENT).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_large_file_goes_through_the_server_and_stays_in_neither_of_its_ways() {
    works(LARGE).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_published_code_interpreter_of_e2b_works_unmodified() {
    works(INTERPRETER).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_published_clients_of_e2b_in_javascript_work_unmodified() {
    let lab = lab!();
    let modules = match Modules::fetch(PACKAGES).await {
        Ok(modules) => modules,
        Err(reason) => rekindle_test_support::skip!("no Node with e2b: {reason}"),
    };
    let folder = tempfile::tempdir().expect("a directory");
    served(lab, &[], async |env| modules.printed(folder.path(), env, JAVASCRIPT).await).await;
}

/// What a user reads first, as it is written there.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_examples_of_the_pages_print_what_they_say() {
    for (page, heading) in [
        (include_str!("../../../../README.md"), "## With the client you have\n"),
        (include_str!("../../../../docs/guides/e2b.md"), "## Three variables\n"),
    ] {
        let (_, rest) = page.split_once(heading).expect("the heading");
        let variables = ["E2B_API_KEY=$(rekindle token create --e2b", "E2B_API_URL=", "E2B_SANDBOX_URL="];
        let (before, rest) = rest.split_once("```python\n").expect("a program");
        assert!(variables.iter().all(|variable| before.contains(variable)), "{before}");
        let (program, _) = rest.split_once("```").expect("its end");
        let client = format!("{program}\nprint('done')\n");
        prints(&client, &[], |stdout| assert_eq!(stdout, "42\n\ndone\n", "{program}")).await;
    }
}

/// Figures and tables, on the image that has what makes them.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_pandas_and_matplotlib_make_is_shown_in_all_its_forms() {
    let lab = lab!();
    if let Err(reason) = large_template(lab).await {
        rekindle_test_support::skip!("{reason}");
    }
    let templates = format!("pool.templates={{ minimal = {{}}, {LARGE_TEMPLATE} = {{}} }}");
    prints(RICH, &[&templates], |_| ()).await;
}

async fn works(client: &str) {
    prints(client, &[], |_| ()).await;
}

async fn prints(client: &str, settings: &[&str], right: impl FnOnce(&str)) {
    let lab = lab!();
    let packages = match Packages::fetch(REQUIREMENTS).await {
        Ok(packages) => packages,
        Err(reason) => rekindle_test_support::skip!("no Python with e2b: {reason}"),
    };
    let folder = tempfile::tempdir().expect("a directory");
    right(
        &served(lab, settings, async |env| packages.printed(folder.path(), env, &["-c", client]).await).await,
    );
}

/// Runs a client of a server to its end, with the server's memory flat; what it printed.
async fn served(lab: &Lab, settings: &[&str], client: impl AsyncFnOnce(&[(&str, &str)]) -> String) -> String {
    let _turn = lab.turn().await;
    let data = lab.copy();
    let file = data.path().join("tokens.toml").display().to_string();
    let key = e2b_key(data.path(), &file, "maker", "acme", "create,exec,files").await;
    let tokens = format!("auth.tokens={file}");
    let mut server =
        Server::start(data.path(), &[&[tokens.as_str(), "http.listen=127.0.0.1:0"], settings].concat()).await;
    let url = server.http().await;
    let env = [
        ("E2B_API_KEY", key.as_str()),
        ("E2B_API_URL", &url),
        ("E2B_SANDBOX_URL", &url),
        ("TEMPLATE", LARGE_TEMPLATE),
    ];
    let before = server.held().rss_kib;
    let mut most = before;
    let mut client = std::pin::pin!(client(&env));
    let stdout = loop {
        tokio::select! {
            stdout = &mut client => break stdout,
            () = tokio::time::sleep(Duration::from_millis(50)) => most = most.max(server.held().rss_kib),
        }
    };
    assert!(stdout.ends_with("done\n"), "{stdout}");
    assert!(!server.lines().join("\n").contains(&key), "a secret is in the log");
    server.stop(&leftovers::machines(data.path())).await;
    assert!(most < before + FLAT_KIB, "from {before} to {most} KiB");
    stdout
}
