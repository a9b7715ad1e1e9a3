//! Clients that know nothing of the gate: curl, pip, npm and git, as they come with the image. They reach what the policy
//! allows under the names they use anywhere, and are denied the rest in words that each of them prints.
//!
//! What they fetch is made by their own tools in the guest, before.

use rekindle_api::v1::Sandbox;
use rekindle_e2e::authority::Authority;
use rekindle_e2e::site::Site;
use rekindle_e2e::{Lab, Unavailable};
use serde_json::json;
use tokio::sync::OnceCell;

use super::gate::Gate;
use super::made::{WHEEL, made, npm_package};

/// The image that has the clients, barely warmed up.
pub const TEMPLATE: &str = "clients";
const RECIPE: &str = r#"
description = "the big image, for its clients"
image = "python-node"
vcpus = 2
memory_mib = 512
scratch_mib = 256
"#;

/// Makes the template, once.
pub async fn template(lab: &Lab) -> Result<(), Unavailable> {
    static BUILT: OnceCell<Result<(), Unavailable>> = OnceCell::const_new();
    let build = || async {
        let source = lab.source_of(TEMPLATE, RECIPE)?;
        std::fs::write(lab.recipes.join(format!("{TEMPLATE}.toml")), RECIPE).expect("written");
        source.build(&lab.host, &lab.store, &|_| {}).await.expect("the template is built");
        Ok::<(), Unavailable>(())
    };
    BUILT.get_or_init(build).await.clone()
}

/// The laboratory with that template, or the end of the test as a reported skip.
macro_rules! lab_with_clients {
    () => {{
        let lab = lab!();
        if let Err(reason) = crate::network::clients::template(lab).await {
            rekindle_test_support::skip!("{reason}");
        }
        lab
    }};
}
pub(super) use lab_with_clients;

/// A sandbox that trusts the authority of the test.
pub(super) async fn trusting(gate: &Gate, authority: &Authority) -> Sandbox {
    let sandbox = gate.sandbox("test").await;
    gate.shell(&sandbox, "cat > ca.pem", authority.pem()).await.printed();
    sandbox
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn curl_fetches_over_http_and_tls_and_says_why_when_it_may_not() {
    let lab = lab_with_clients!();
    let _turn = lab.turn().await;
    let authority = Authority::new();
    let (plain, secure) = (Site::plain().await, Site::secure(authority.server(&["www.example.com"])).await);
    plain.put("/", "text/plain", "over HTTP");
    secure.put("/", "text/plain", "over TLS");
    let rules =
        "allow = [{ host = \"mirror.example.org\", protocol = \"http\" }, { host = \"*.example.com\" }]";
    let hosts = [("mirror.example.org", plain.address()), ("www.example.com", secure.address())];
    let gate = Gate::open(lab, TEMPLATE, rules, &hosts).await;
    let sandbox = trusting(&gate, &authority).await;
    let curl = async |words: &str| gate.shell(&sandbox, &format!("curl -sS {words}"), "").await;

    assert_eq!(curl("http://mirror.example.org").await.printed(), "over HTTP");
    assert_eq!(curl("--cacert ca.pem https://www.example.com").await.printed(), "over TLS");

    let denied = curl("-w '%{http_code}' http://denied.example.net").await.printed();
    let (body, code) = denied.split_at(denied.len() - 3);
    let body: serde_json::Value = serde_json::from_str(body).unwrap_or_else(|_| panic!("{denied}"));
    assert_eq!(code, "403");
    assert_eq!(
        (&body["reason"], &body["host"], &body["port"], &body["policy"]),
        (&json!("not_allowed"), &json!("denied.example.net"), &json!(80), &json!("test")),
        "{body}"
    );
    // 35: the handshake failed.
    for url in ["https://denied.example.net", "https://mirror.example.org"] {
        curl(url).await.assert_told(35, "alert access denied");
    }
    assert_eq!(plain.heard(), ["GET mirror.example.org /"]);
    assert_eq!(secure.heard(), ["GET www.example.com /"]);
    gate.close().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn pip_installs_a_wheel_from_its_own_index_and_from_no_other() {
    let lab = lab_with_clients!();
    let _turn = lab.turn().await;
    let authority = Authority::new();
    let index = Site::secure(authority.server(&["pypi.org", "files.pythonhosted.org"])).await;
    let hosts = [("pypi.org", index.address()), ("files.pythonhosted.org", index.address())];
    let gate = Gate::open(lab, TEMPLATE, "presets = [\"pypi\"]", &hosts).await;
    let sandbox = trusting(&gate, &authority).await;
    for (path, wheel) in made(&gate, &sandbox, WHEEL).await {
        index.put(&format!("/packages{path}"), "application/zip", wheel);
        let link = format!("<a href=\"https://files.pythonhosted.org/packages{path}\">{}</a>", &path[1..]);
        index.put("/simple/gatekeeper/", "text/html", format!("<!DOCTYPE html><body>{link}</body>"));
    }

    let install = "PIP_CERT=~/ca.pem pip install --no-input --target lib";
    let used = "PYTHONPATH=lib python3 -c 'import gatekeeper; print(gatekeeper.word)'";
    let line = format!("{install} gatekeeper >&2 && {used}");
    assert_eq!(gate.shell(&sandbox, &line, "").await.printed(), "from a wheel");
    let heard = index.heard();
    for asked in [
        "GET pypi.org /simple/gatekeeper/",
        "GET files.pythonhosted.org /packages/gatekeeper-1.0-py3-none-any.whl",
    ] {
        assert!(heard.iter().any(|heard| heard == asked), "{asked} is not in {heard:?}");
    }

    let other = format!("{install} --retries 0 --index-url https://pypi.example.net/simple gatekeeper");
    gate.shell(&sandbox, &other, "").await.assert_told(1, "tlsv1 alert access denied");
    assert_eq!(index.heard(), heard);
    gate.close().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn npm_installs_a_package_from_its_own_registry_and_from_no_other() {
    let lab = lab_with_clients!();
    let _turn = lab.turn().await;
    let authority = Authority::new();
    let registry = Site::secure(authority.server(&["registry.npmjs.org"])).await;
    let hosts = [("registry.npmjs.org", registry.address())];
    let gate = Gate::open(lab, TEMPLATE, "presets = [\"npm\"]", &hosts).await;
    let sandbox = trusting(&gate, &authority).await;
    npm_package(&gate, &sandbox, &registry).await;

    // What is not asked for here takes npm a while.
    let install = "NODE_EXTRA_CA_CERTS=~/ca.pem npm install --no-audit --no-fund --no-update-notifier";
    let used = "node -p 'require(\"gatekeeper\")'";
    let line =
        format!("mkdir project && cd project && npm init -y >&2 && {install} gatekeeper >&2 && {used}");
    assert_eq!(gate.shell(&sandbox, &line, "").await.printed(), "from a package");
    let heard = registry.heard();
    assert!(heard.iter().any(|heard| heard == "GET registry.npmjs.org /gatekeeper"), "{heard:?}");

    let elsewhere = "--fetch-retries 0 --registry https://npm.example.net";
    let other = format!("mkdir other && cd other && npm init -y >&2 && {install} {elsewhere} gatekeeper");
    gate.shell(&sandbox, &other, "").await.assert_told(1, "alert access denied");
    assert_eq!(registry.heard(), heard);
    gate.close().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn git_clones_a_repository_from_an_allowed_host_and_from_no_other() {
    let lab = lab_with_clients!();
    let _turn = lab.turn().await;
    let authority = Authority::new();
    let forge = Site::secure(authority.server(&["github.com"])).await;
    let gate = Gate::open(lab, TEMPLATE, "presets = [\"github\"]", &[("github.com", forge.address())]).await;
    let sandbox = trusting(&gate, &authority).await;
    let commit = r#"git init -q work && cd work && echo 'from a repository' > README && git add README \
        && git -c user.name=test -c user.email=test@example.com commit -qm first \
        && git clone -q --bare . ../bare.git && cd ../bare.git && rm -rf hooks && git update-server-info"#;
    for (path, file) in made(&gate, &sandbox, commit).await {
        forge.put(&format!("/example/demo.git{path}"), "text/plain", file);
    }

    let clone = "GIT_SSL_CAINFO=~/ca.pem git clone -q";
    let line = format!("{clone} https://github.com/example/demo.git && cat demo/README");
    assert_eq!(gate.shell(&sandbox, &line, "").await.printed(), "from a repository");
    let heard = forge.heard();
    assert!(heard.contains(&"GET github.com /example/demo.git/info/refs".to_owned()), "{heard:?}");

    let other = format!("{clone} https://git.example.net/example/demo.git other");
    gate.shell(&sandbox, &other, "").await.assert_told(128, "access was denied");
    assert_eq!(forge.heard(), heard);
    gate.close().await;
}
