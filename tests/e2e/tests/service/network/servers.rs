//! Real servers behind the gate: an index of Python packages (pypiserver), a registry of npm's (verdaccio) and git's own
//! server. Unmodified clients publish to them and fetch from them under the names of the public ones.
//!
//! The servers are fetched from their indexes once and kept; this is skipped where they cannot be.

use rekindle_e2e::authority::Authority;
use rekindle_e2e::foreign::Foreign;
use rekindle_e2e::forge::Forge;
use rekindle_e2e::front::Front;
use rekindle_e2e::provisions;
use tokio::process::Command;

use super::clients::{TEMPLATE, lab_with_clients, trusting};
use super::gate::Gate;
use super::made::{PACKAGE, WHEEL};

/// Anybody may read and publish, but for packages of one scope; what is not here is nowhere.
const REGISTRY_SETTINGS: &str = r#"
storage: ./storage
web: { enable: false }
packages:
  "@closed/*": { access: $all, publish: nobody }
  "**": { access: $all, publish: $all }
log: { type: stdout, format: pretty, level: http }
"#;

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn pip_installs_what_was_uploaded_to_a_real_index() {
    let lab = lab_with_clients!();
    let packages = match provisions::index().await {
        Ok(packages) => packages,
        Err(reason) => rekindle_test_support::skip!("no pypiserver: {reason}"),
    };
    let _turn = lab.turn().await;
    let dir = tempfile::tempdir().expect("a directory");
    let files = dir.path().join("packages");
    std::fs::create_dir(&files).expect("a directory");
    let index = Foreign::start("pypiserver", dir.path(), |address| {
        let mut command = Command::new("python3");
        command.args([
            "-s",
            "-B",
            "-m",
            "pypiserver",
            "run",
            "--disable-fallback",
            "-v",
            "-P",
            ".",
            "-a",
            ".",
        ]);
        command.args(["-i", &address.ip().to_string(), "-p", &address.port().to_string()]).arg(&files);
        command.env("PYTHONPATH", packages.path());
        command
    })
    .await;
    let authority = Authority::new();
    let front = Front::open(authority.server(&["pypi.org"]), index.address()).await;
    let hosts = [("pypi.org", front.address())];
    let gate = Gate::open(lab, TEMPLATE, "presets = [\"pypi\"]", &hosts).await;
    let sandbox = trusting(&gate, &authority).await;

    let install = "PIP_CERT=~/ca.pem pip install --no-input --retries 0 --target lib gatekeeper";
    gate.shell(&sandbox, install, "").await.assert_told(1, "no matching distribution");
    let upload = "curl -sS --fail --cacert ~/ca.pem -F :action=file_upload -F content=@\"$(ls *.whl)\" https://pypi.org/";
    gate.shell(&sandbox, &format!("{WHEEL}\n{upload}"), "").await.printed();
    assert!(files.join("gatekeeper-1.0-py3-none-any.whl").is_file(), "{}", index.log());
    let used = "PYTHONPATH=lib python3 -c 'import gatekeeper; print(gatekeeper.word)'";
    let line = format!("{install} >&2 && {used}");
    assert_eq!(gate.shell(&sandbox, &line, "").await.printed(), "from a wheel");
    gate.close().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn npm_publishes_to_a_real_registry_and_installs_from_it() {
    let lab = lab_with_clients!();
    let modules = match provisions::registry().await {
        Ok(modules) => modules,
        Err(reason) => rekindle_test_support::skip!("no verdaccio: {reason}"),
    };
    let _turn = lab.turn().await;
    let dir = tempfile::tempdir().expect("a directory");
    let settings = dir.path().join("config.yaml");
    std::fs::write(&settings, REGISTRY_SETTINGS).expect("written");
    let registry = Foreign::start("verdaccio", dir.path(), |address| {
        let mut command = Command::new("node");
        command.arg(modules.file("verdaccio/bin/verdaccio")).arg("--config").arg(&settings);
        command.args(["--listen", &address.to_string()]).current_dir(dir.path());
        // Its links are what clients see, and nothing of a person's own is used.
        command.env("VERDACCIO_PUBLIC_URL", "https://registry.npmjs.org").env("HOME", dir.path());
        command
    })
    .await;
    let authority = Authority::new();
    let front = Front::open(authority.server(&["registry.npmjs.org"]), registry.address()).await;
    let hosts = [("registry.npmjs.org", front.address())];
    let gate = Gate::open(lab, TEMPLATE, "presets = [\"npm\"]", &hosts).await;
    let sandbox = trusting(&gate, &authority).await;

    // Without a key npm does not even ask; the registry wants none.
    let npm = "export NODE_EXTRA_CA_CERTS=~/ca.pem npm_config_update_notifier=false npm_config_fetch_retries=0 \
        && echo //registry.npmjs.org/:_authToken=any > ~/.npmrc";
    let publish = format!("{npm} && {PACKAGE} && npm publish");
    gate.shell(&sandbox, &publish, "").await.printed();
    let closed = format!("{npm} && cd package && npm pkg set name=@closed/gatekeeper && npm publish");
    gate.shell(&sandbox, &closed, "").await.assert_told(1, "unable to authenticate");

    // Publishing leaves the package in npm's cache; another one has nothing of it.
    let install = "npm install --no-audit --no-fund --cache ~/empty gatekeeper";
    let used = "node -p 'require(\"gatekeeper\")'";
    let line = format!("{npm} && mkdir project && cd project && npm init -y >&2 && {install} >&2 && {used}");
    assert_eq!(gate.shell(&sandbox, &line, "").await.printed(), "from a package");
    let log = registry.log();
    for asked in ["PUT /gatekeeper", "GET /gatekeeper/-/gatekeeper-1.0.0.tgz"] {
        assert!(log.contains(asked), "{asked} is not in {log}");
    }
    gate.close().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn git_clones_from_a_real_server_and_pushes_where_it_may() {
    let lab = lab_with_clients!();
    let authority = Authority::new();
    let forge = match Forge::open(authority.server(&["github.com"])).await {
        Ok(forge) => forge,
        Err(reason) => rekindle_test_support::skip!("no server for git: {reason}"),
    };
    let _turn = lab.turn().await;
    forge.create("example/open.git", true);
    forge.create("example/closed.git", false);
    let hosts = [("github.com", forge.address())];
    let gate = Gate::open(lab, TEMPLATE, "presets = [\"github\"]", &hosts).await;
    let sandbox = trusting(&gate, &authority).await;
    // Enough of it that a push does not fit one piece.
    let settings = "export GIT_SSL_CAINFO=~/ca.pem GIT_TERMINAL_PROMPT=0";
    let git = "git -c user.name=test -c user.email=test@example.com";
    let run = async |line: &str| gate.shell(&sandbox, &format!("{settings} && {line}"), "").await;

    let first = format!(
        "git init -q -b main work && cd work && echo 'from a repository' > README \
         && head -c 3000000 /dev/urandom > large && git add . && {git} commit -qm first"
    );
    run(&first).await.printed();
    run("cd work && git push -q https://github.com/example/open.git main").await.printed();
    assert_eq!(forge.last_commit("example/open.git").as_deref(), Some("first"));
    let same =
        "git clone -q https://github.com/example/open.git && cat open/README && cmp work/large open/large";
    assert_eq!(run(same).await.printed(), "from a repository");
    let second = format!(
        "cd open && echo more >> README && {git} commit -qam second && git push -q && git fetch -q && git status -sb"
    );
    assert_eq!(run(&second).await.printed(), "## main...origin/main");
    assert_eq!(forge.last_commit("example/open.git").as_deref(), Some("second"));

    let refused = run("cd work && git push https://github.com/example/closed.git main").await;
    refused.assert_told(128, "403");
    // The server's word, not the gate's.
    assert!(refused.network.denials.is_empty(), "{refused:?}");
    assert_eq!(forge.last_commit("example/closed.git"), None);
    gate.close().await;
}
