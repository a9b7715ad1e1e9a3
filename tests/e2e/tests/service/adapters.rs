//! The SDK's adapters for agent frameworks, each with the suite that its framework has for them.

use std::path::Path;
use std::process::Command;

use rekindle_e2e::leftovers;
use rekindle_e2e::python::Packages;
use rekindle_e2e::server::Server;

/// The packages of a suite, and what runs it.
macro_rules! requirements {
    ($folder:literal) => {
        concat!(
            "httpx==0.28.1\npytest==9.2.0\npytest-asyncio==1.5.0\npytest-timeout==2.4.0\n",
            include_str!(concat!("../../../compat/", $folder, "/requirements.txt"))
        )
    };
}

/// Runs the suite in a folder of `tests/compat`, without the tests of which a name has one of `but`.
async fn passes(folder: &str, requirements: &'static str, but: &str) {
    let lab = lab!();
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    let packages = match Packages::fetch_and(requirements, root.join("sdk/python")).await {
        Ok(packages) => packages,
        Err(reason) => rekindle_test_support::skip!("no Python with the framework: {reason}"),
    };
    let _turn = lab.turn().await;
    let data = lab.copy();
    let server = Server::start(data.path(), &[]).await;
    let address = server.address();
    let words = ["-m", "pytest", "-q", "-p", "no:cacheprovider", "--timeout=240", "--tb=short", "-k", but];
    let tests = root.join("tests/compat").join(folder);
    let said = packages.printed(&tests, &[("REKINDLE_SERVER", &address)], &words).await;
    assert!(said.contains(" passed"), "{said}");
    server.stop(&leftovers::machines(data.path())).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn deepagents_has_a_sandbox_that_passes_its_standard_tests() {
    // The small image has python3 alone.
    passes("langchain", requirements!("langchain"), "not large_stdout_payload").await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn pydantic_ai_has_a_workspace_that_conforms() {
    passes("pydantic-ai", requirements!("pydantic-ai"), "test").await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn inspect_ai_has_an_environment_that_passes_its_self_check() {
    // The images have no `adduser`.
    passes("inspect-ai", requirements!("inspect-ai"), "not exec_as_user").await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn openai_agents_have_a_sandbox_for_their_runs() {
    passes("openai-agents", requirements!("openai-agents"), "test").await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn harbor_runs_and_judges_a_trial() {
    let newer = ["-c", "import sys; sys.exit(sys.version_info < (3, 12))"];
    if !Command::new("python3").args(newer).status().is_ok_and(|status| status.success()) {
        rekindle_test_support::skip!("harbor needs Python 3.12 or newer");
    }
    passes("harbor", requirements!("harbor"), "test").await;
}
