//! The SDKs as their users have them. Python's: installed with pip, on the socket of a server, without a word of
//! configuration but the address. TypeScript's: built with the compiler alone, over HTTP and on the socket.

use std::path::Path;

use rekindle_e2e::cli::token;
use rekindle_e2e::leftovers;
use rekindle_e2e::node::Modules;
use rekindle_e2e::python::Packages;
use rekindle_e2e::server::Server;

use crate::large::{self, LARGE};

/// What it depends on, from the package index.
const REQUIREMENTS: &str = "httpx==0.28.1\n";
/// What is done with it.
const CLIENT: &str = include_str!("sdk_client.py");
/// The compiler, of the version in the SDK's package.json.
const COMPILER: &[&str] = &["typescript@5.9.3"];
/// What is done with the SDK for TypeScript: it is built, its own tests and the examples of its page are run, and more.
const JAVASCRIPT: &str = include_str!("sdk_client.mjs");
/// The guides that have a program for the SDK, with what the program finds there, and what must be so after it.
const GUIDES: [(&str, &str, &str); 5] = [
    (
        "clock",
        "import datetime\nfrom rekindle import Sandbox\nsandbox = Sandbox()",
        "assert sandbox.run_python('import time; print(time.tzname[0])', timezone='Europe/Berlin').stdout == 'CET\\n'",
    ),
    ("code-interpreter", "", "assert run.text == '42'"),
    (
        "diagnoses",
        "from rekindle import Sandbox\nsandbox, source, asked = Sandbox(), 'import reqests', []\nask_again = asked.append",
        "assert len(asked) == 1 and asked[0].startswith('reqests is missing: '), asked",
    ),
    (
        "traces",
        "trace_id, data = '4bf92f3577b34da6a3ce929d0e0e4737', 'a\\n1\\n'\n\
         traceparent = f'00-{trace_id}-00f067aa0ba902b7-01'",
        "with rekindle.Client() as client: assert 'count' in {step.step for step in client.timeline(trace_id).steps}",
    ),
    (
        "turns",
        "from rekindle import Sandbox\nsource = 'print(42)'",
        "assert (result.turns_left, result.warning, result.stdout) == (11, '', '42\\n'), result",
    ),
];

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_python_sdk_uses_a_sandbox_from_beginning_to_end() {
    let lab = lab!();
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../sdk/python");
    let packages = match Packages::fetch_and(REQUIREMENTS, folder.clone()).await {
        Ok(packages) => packages,
        Err(reason) => rekindle_test_support::skip!("no Python with the SDK: {reason}"),
    };
    let _turn = lab.turn().await;
    let data = lab.copy();
    // The face that leads to ports wants tokens; who uses the socket needs none.
    let file = data.path().join("tokens.toml").display().to_string();
    token(data.path(), &file, "maker", "acme", "create,exec,files").await;
    let tokens = format!("auth.tokens={file}");
    let server = Server::start(data.path(), &[&tokens, "http.listen=127.0.0.1:0"]).await;
    let env = [("REKINDLE_SERVER", server.address())];
    let env: Vec<_> = env.iter().map(|(name, value)| (*name, value.as_str())).collect();
    let elsewhere = tempfile::tempdir().expect("a directory");
    let stdout = packages.printed(elsewhere.path(), &env, &["-c", CLIENT]).await;
    assert!(stdout.ends_with("done\n"), "{stdout}");
    let mut programs = examples(&folder.join("README.md"));
    assert!(programs.len() >= 6, "{programs:?}");
    programs.retain(|program| !program.contains(LARGE));
    for (guide, before, after) in GUIDES {
        let page = folder.join(format!("../../docs/guides/{guide}.md"));
        let [program] = &examples(&page)[..] else { panic!("{guide} has one program") };
        programs.push(format!("{before}\n{program}\n{after}\n"));
    }
    for program in &programs {
        packages.printed(elsewhere.path(), &env, &["-c", program]).await;
    }
    server.stop(&leftovers::machines(data.path())).await;
}

/// What the page of the SDK says of five minutes: pip, some lines, a chart.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_stranger_has_a_chart_in_an_environment_of_their_own() {
    let lab = lab!();
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../sdk/python");
    let elsewhere = tempfile::tempdir().expect("a directory");
    let packages = match Packages::fresh(elsewhere.path().join("venv"), folder.clone()).await {
        Ok(packages) => packages,
        Err(reason) => rekindle_test_support::skip!("no environment for Python: {reason}"),
    };
    let _turn = lab.turn().await;
    let data = match large::data(lab).await {
        Ok(data) => data,
        Err(reason) => rekindle_test_support::skip!("no large template: {reason}"),
    };
    let server = large::server(&data, &[]).await;
    let examples = examples(&folder.join("README.md"));
    let [example] = &examples.iter().filter(|example| example.contains(LARGE)).collect::<Vec<_>>()[..] else {
        panic!("there is not one example with the large template: {examples:?}");
    };
    let began = std::time::Instant::now();
    let address = server.address();
    let said = packages.printed(elsewhere.path(), &[("REKINDLE_SERVER", &address)], &["-c", example]).await;
    assert_eq!(said, "True\n");
    eprintln!("the example took {:.1} s", began.elapsed().as_secs_f64());
    let chart = std::fs::read(elsewhere.path().join("chart.png")).expect("a chart");
    assert!(chart.starts_with(b"\x89PNG\r\n\x1a\n"), "{:?}", &chart[..chart.len().min(16)]);
    assert!(chart.ends_with(b"IEND\xae\x42\x60\x82"), "it is whole");
    server.stop(&leftovers::machines(data.path())).await;
}

/// The programs in Python on a page.
fn examples(page: &Path) -> Vec<String> {
    let page = std::fs::read_to_string(page).expect("a page");
    let parts = page.split("```python\n").skip(1).filter_map(|rest| rest.split("```").next());
    parts.map(str::to_owned).collect()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_typescript_sdk_uses_a_sandbox_from_beginning_to_end() {
    let lab = lab!();
    let modules = match Modules::fetch(COMPILER).await {
        Ok(modules) => modules,
        Err(reason) => rekindle_test_support::skip!("no Node with typescript: {reason}"),
    };
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../sdk/typescript");
    let about = std::fs::read_to_string(folder.join("package.json")).expect("a description");
    let version = format!("\"version\": \"{}\"", env!("CARGO_PKG_VERSION"));
    assert!(about.contains(&version), "the SDK is of another version: {about}");
    let folder = folder.display().to_string();
    let _turn = lab.turn().await;
    let data = lab.copy();
    let file = data.path().join("tokens.toml").display().to_string();
    let secret = token(data.path(), &file, "maker", "acme", "create,exec,files").await;
    let tokens = format!("auth.tokens={file}");
    let mut server = Server::start(data.path(), &[&tokens, "http.listen=127.0.0.1:0"]).await;
    let (url, socket) = (server.http().await, server.address());
    let env = [
        ("REKINDLE_SDK", folder.as_str()),
        ("REKINDLE_SERVER", &url),
        ("REKINDLE_SOCKET", &socket),
        ("REKINDLE_TOKEN", &secret),
    ];
    let elsewhere = tempfile::tempdir().expect("a directory");
    let stdout = modules.printed(elsewhere.path(), &env, JAVASCRIPT).await;
    assert!(stdout.ends_with("done\n"), "{stdout}");
    assert!(!server.lines().join("\n").contains(&secret), "a secret is in the log");
    server.stop(&leftovers::machines(data.path())).await;
}
