//! The Python SDK (`sdk/python`) with its own tests: against this server, on every listener, and against the description
//! it serves; and its types, as strict as they are checked anywhere. The TypeScript SDK (`sdk/typescript`) on the runtimes
//! that are not Node; on Node it is tested on real machines.

use std::path::{Path, PathBuf};

use rekindle::network::Egress;
use rekindle_test_support::echo::echo;
use rekindle_test_support::skip;

use crate::node::Modules;
use crate::place::{Place, Wishes};
use crate::protocols::certificates;
use crate::python::Packages;

/// What its tests need from the package index.
const REQUIREMENTS: &str = "httpx==0.28.1\nmypy==2.4.1\npytest==9.2.0\n";

/// The second opinion on its types.
const PYRIGHT: &[&str] = &["pyright@1.1.414"];

/// What builds the SDK for TypeScript, and each runtime as its registry package brings it.
macro_rules! runtime {
    ($package:literal) => {
        &["typescript@5.9.3", $package]
    };
}
const BUN: &[&str] = runtime!("@oven/bun-linux-x64-baseline@1.4.4");
const DENO: &[&str] = runtime!("@deno/linux-x64-glibc@2.9.6");
const WORKERD: &[&str] = runtime!("@cloudflare/workerd-linux-64@1.20261110.1");
/// What is done there.
const RUNTIMES: &str = include_str!("sdk_runtimes.mjs");

fn folder() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../sdk/python")
}

/// The packages, or the end of the test as a reported skip.
macro_rules! packages {
    () => {
        match Packages::fetch(REQUIREMENTS).await {
            Ok(packages) => packages,
            Err(reason) => skip!("no Python with httpx, mypy and pytest: {reason}"),
        }
    };
}

/// A policy whose one name leads to a server of this test's.
const POLICIES: &str = "[build]\nmode = \"allow\"\n\
    allow = [{ host = \"echo.example.com\", ports = [7], protocol = \"tcp\" }]\n";

async fn network() -> Egress {
    let hosts = [("echo.example.com".to_owned(), echo().await)].into();
    Egress::new(&toml::from_str(POLICIES).expect("policies"), &hosts).expect("a network")
}

/// Nothing is written beside the sources.
const TESTS: [&str; 5] = ["-m", "pytest", "-q", "-p", "no:cacheprovider"];

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_python_sdk_does_what_it_says_and_cannot_drift() {
    let packages = packages!();
    let dir = tempfile::tempdir().expect("a directory");
    let files = certificates(dir.path()).0;
    let (network, networks) = (network().await, vec!["build".into()]);
    let place = Place::with(Wishes { tls: Some(files), network, networks, ..Wishes::default() }).await;
    let grpc = place.grpc_address.expect("an address").port();
    let ca = dir.path().join("ca.pem").display().to_string();
    let servers = [
        format!("https://localhost:{}", place.address.port()),
        format!("https://localhost:{grpc}"),
        format!("unix:{}", place.socket.display()),
    ];
    for server in servers {
        let env = [
            ("REKINDLE_SERVER", server.as_str()),
            ("REKINDLE_TOKEN", &place.key),
            ("REKINDLE_CA", &ca),
            ("REKINDLE_TEST_GUEST", "fake"),
        ];
        let said = packages.printed(&folder(), &env, &TESTS).await;
        assert!(said.contains(" passed") && !said.contains("skipped"), "{server}: {said}");
    }
}

#[tokio::test]
async fn the_parts_of_the_example_agent_do_what_they_say() {
    let packages = packages!();
    let path = packages.path().into_string().expect("text");
    let path = format!("{}:{path}", folder().join("src").display());
    let agent = Path::new(env!("CARGO_MANIFEST_DIR")).join("../examples/agent");
    let said = packages.printed(&agent, &[("PYTHONPATH", &path)], &TESTS).await;
    assert!(said.contains(" passed") && !said.contains("skipped"), "{said}");
}

#[tokio::test]
async fn the_types_of_the_python_sdk_are_sound() {
    let packages = packages!();
    let cache = tempfile::tempdir().expect("a directory");
    let cache = cache.path().display().to_string();
    packages.printed(&folder(), &[], &["-m", "mypy", "--strict", "--cache-dir", &cache]).await;
}

#[tokio::test]
async fn the_types_of_the_python_sdk_are_sound_to_pyright() {
    let packages = packages!();
    let modules = match Modules::fetch(PYRIGHT).await {
        Ok(modules) => modules,
        Err(reason) => skip!("no Node with pyright: {reason}"),
    };
    let source = "import { spawnSync } from 'node:child_process'; import { createRequire } from 'node:module';\n\
        const pyright = createRequire(import.meta.url).resolve('pyright/index.js');\n\
        const words = [pyright, '--project', process.env.SDK];\n\
        process.exit(spawnSync(process.execPath, words, { stdio: 'inherit' }).status);\n";
    let (sdk, path) = (folder().display().to_string(), packages.path());
    let env = [("SDK", sdk.as_str()), ("PYTHONPATH", path.to_str().expect("text"))];
    let dir = tempfile::tempdir().expect("a directory");
    let said = modules.printed(dir.path(), &env, source).await;
    assert!(said.contains("0 errors, 0 warnings"), "{said}");
}

/// Builds the TypeScript SDK and runs what it promises on a runtime.
async fn runs_on(runtime: &str, packages: &'static [&'static str]) {
    let modules = match Modules::fetch(packages).await {
        Ok(modules) => modules,
        Err(reason) => skip!("no Node with {packages:?}: {reason}"),
    };
    let place = Place::new().await;
    let sdk = Path::new(env!("CARGO_MANIFEST_DIR")).join("../sdk/typescript").display().to_string();
    let server = format!("http://{}", place.address);
    let env = [
        ("REKINDLE_SDK", sdk.as_str()),
        ("REKINDLE_RUNTIME", runtime),
        ("REKINDLE_SERVER", &server),
        ("REKINDLE_TOKEN", &place.key),
    ];
    let dir = tempfile::tempdir().expect("a directory");
    let said = modules.printed(dir.path(), &env, RUNTIMES).await;
    if let Some(reason) = said.lines().find_map(|line| line.strip_prefix("cannot run: ")) {
        skip!("{runtime} does not run here: {reason}");
    }
    assert!(said.contains(&format!("smoke on {runtime}\n")) && said.ends_with("done\n"), "{said}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_typescript_sdk_runs_on_bun() {
    runs_on("bun", BUN).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_typescript_sdk_runs_on_deno() {
    runs_on("deno", DENO).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_typescript_sdk_runs_in_a_worker() {
    runs_on("worker", WORKERD).await;
}
