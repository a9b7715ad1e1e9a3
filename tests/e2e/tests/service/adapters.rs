//! The SDK's adapters for agent frameworks, each with the suite that its framework has for them. Frameworks are installed
//! as users do it, through the SDK's extras.

use std::fs;
use std::path::{Path, PathBuf};

use rekindle_e2e::leftovers;
use rekindle_e2e::python::{self, Packages};
use rekindle_e2e::server::Server;
use tempfile::TempDir;

use crate::large;

/// What runs a suite.
const RUNNER: &str = "pytest==9.2.0\npytest-asyncio==1.5.0\npytest-timeout==2.4.0\n";

/// A framework whose suite is in a folder of `tests/compat`.
struct Framework {
    folder: &'static str,
    /// The SDK's extra that brings it.
    extra: &'static str,
    /// The minor version of Python that it needs at least.
    python: u32,
    /// How many of the suite's tests pass: neither may one begin to skip, nor be lost unseen.
    tests: u32,
}

impl Framework {
    /// The whole suite on a server of the small image.
    async fn passes(&self) {
        let lab = lab!();
        let packages = match self.packages().await {
            Ok(packages) => packages,
            Err(reason) => rekindle_test_support::skip!("no Python with {}: {reason}", self.extra),
        };
        let _turn = lab.turn().await;
        let data = lab.copy();
        let server = Server::start(data.path(), &[]).await;
        self.runs(&packages, server, &data).await;
    }

    /// The whole suite on a server of the image `python-node`.
    async fn passes_on_python_node(&self) {
        let lab = lab!();
        let packages = match self.packages().await {
            Ok(packages) => packages,
            Err(reason) => rekindle_test_support::skip!("no Python with {}: {reason}", self.extra),
        };
        let _turn = lab.turn().await;
        let data = match large::data(lab).await {
            Ok(data) => data,
            Err(reason) => rekindle_test_support::skip!("{reason}"),
        };
        let server = large::server(&data, &[]).await;
        self.runs(&packages, server, &data).await;
    }

    /// The SDK with its extra, and what the suite needs besides.
    async fn packages(&self) -> Result<Packages, String> {
        let besides = fs::read_to_string(self.folder().join("own.txt")).unwrap_or_default();
        let sdk = root().join("sdk/python");
        Packages::extra(python::at_least(self.python)?, sdk, self.extra, format!("{RUNNER}{besides}")).await
    }

    async fn runs(&self, packages: &Packages, server: Server, data: &TempDir) {
        let address = server.address();
        let pytest = ["-m", "pytest", "-q", "-p", "no:cacheprovider", "--timeout=240", "--tb=short"];
        let env = [("REKINDLE_SERVER", address.as_str())];
        let said = packages.printed(&self.folder(), &env, &pytest).await;
        let passed = format!("{} passed", self.tests);
        let counted = |line: &str| line.trim_start_matches('=').trim_start().starts_with(&passed);
        assert!(said.lines().any(counted), "not {passed}: {said}");
        server.stop(&leftovers::machines(data.path())).await;
    }

    fn folder(&self) -> PathBuf {
        root().join("tests/compat").join(self.folder)
    }
}

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn deepagents_has_a_sandbox_that_passes_its_standard_tests() {
    // Its own 86, of which two call `python`, which the small image does not have, and one of ours.
    Framework { folder: "langchain", extra: "deepagents", python: 11, tests: 87 }
        .passes_on_python_node()
        .await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn pydantic_ai_has_a_workspace_that_conforms() {
    Framework { folder: "pydantic-ai", extra: "pydantic-ai", python: 10, tests: 37 }.passes().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn inspect_ai_has_an_environment_that_passes_its_self_check() {
    // It adds a user with `adduser`.
    Framework { folder: "inspect-ai", extra: "inspect-ai", python: 11, tests: 44 }
        .passes_on_python_node()
        .await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn openai_agents_have_a_sandbox_for_their_runs() {
    Framework { folder: "openai-agents", extra: "openai-agents", python: 10, tests: 6 }.passes().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn smolagents_have_an_executor_for_their_code() {
    // It wants numpy in the sandbox.
    Framework { folder: "smolagents", extra: "smolagents", python: 10, tests: 2 }
        .passes_on_python_node()
        .await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn harbor_runs_and_judges_a_trial() {
    Framework { folder: "harbor", extra: "harbor", python: 12, tests: 3 }.passes().await;
}
