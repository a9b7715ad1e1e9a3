//! The gateway from inside a real guest: a program that knows a base address and a key, as SDKs do, reaches a service
//! whose credential is nowhere in the machine: the memory of the whole guest is searched for it, and what is written down.

use std::os::unix::fs::PermissionsExt as _;

use rekindle_api::v1::{CreateSandboxRequest, GetSandboxRequest, PauseSandboxRequest, ResumeSandboxRequest};
use rekindle_e2e::authority::Authority;
use rekindle_e2e::memory;
use rekindle_e2e::site::Site;
use rekindle_test_support::wait::PATIENCE;

use super::gate::Gate;
use crate::calls::{create_with, time};

const CANARY: &str = "sk-canary-of-the-operator";
/// What is put into the machine, to be found there.
const WORD: &str = "a-word-that-is-in-the-machine";

/// Asks with a key, as a client of an API does; prints the status and the answer, or why not.
const CALL: &str = r#"
import json, os, urllib.error, urllib.request
token = os.environ["REKINDLE_GATEWAY_TOKEN"]
def call(url, key=token, header="Authorization", form="Bearer {}"):
    request = urllib.request.Request(url, headers={header: form.format(key)})
    try:
        with urllib.request.urlopen(request, timeout=200) as answer:
            return f"{answer.status} {answer.read().decode()}"
    except urllib.error.HTTPError as error:
        return f"{error.code} {json.loads(error.read())['reason']}"
"#;

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_program_calls_a_service_with_a_credential_that_is_not_in_the_machine() {
    let lab = lab!();
    let _turn = lab.turn().await;
    let authority = Authority::new();
    let site = Site::secure(authority.server(&["api.example.com"])).await;
    site.put("/v1/models", "application/json", "[]");
    let dir = tempfile::tempdir().expect("a directory");
    let (ca, key) = (dir.path().join("ca.pem"), dir.path().join("key"));
    std::fs::write(&ca, authority.pem()).expect("written");
    std::fs::write(&key, CANARY).expect("written");
    std::fs::set_permissions(&key, std::fs::Permissions::from_mode(0o600)).expect("closed");
    let services = format!(
        "gateway.services={{ ai = {{ upstream = \"https://api.example.com\", ca = \"{}\", \
         credential = {{ file = \"{}\" }}, operations = [\
         {{ name = \"models\", method = \"GET\", path = \"/v1/models\" }}, \
         {{ name = \"files\", method = \"GET\", path = \"/v1/files\" }}] }} }}",
        ca.display(),
        key.display(),
    );
    let rules = "allow = [{ host = \"plain.example.com\", protocol = \"http\" }]";
    let hosts = [("api.example.com", site.address())];
    let audit = dir.path().join("audit.jsonl");
    let more = [
        services,
        format!("telemetry.audit_log={}", audit.display()),
        // All that can be said.
        "telemetry.log=debug,rekindle=trace".to_owned(),
    ];
    let gate = Gate::open_with(lab, "minimal", rules, &hosts, &more).await;
    // It has no network, and this all the same.
    let request = CreateSandboxRequest {
        gateway: vec!["ai/models".to_owned()],
        ttl: time(PATIENCE * 10),
        ..CreateSandboxRequest::default()
    };
    let sandbox = create_with(&gate.client, request).await;
    let source = format!(
        r#"{CALL}
print(call("http://ai.gateway.internal/v1/models"))
print(call("http://ai.gateway.internal/v1/models", header="x-api-key", form="{{}}"))
print(call("http://ai.gateway.internal/v1/models", key="rkg_wrong"))
print(call("http://ai.gateway.internal/v1/files"))
print(call("http://other.gateway.internal/v1/models"))
print(call("http://api.example.com/v1/models"))
"#
    );
    let expected =
        ["200 []", "200 []", "401 gateway_token", "403 not_granted", "403 not_granted", "403 network_off"];
    assert_eq!(gate.python(&sandbox, &source).await, expected);
    // The guest has written down what was refused, by the gateway as by the policy.
    let record = gate.shell(&sandbox, "cat /run/rekindle/network.jsonl", "").await.printed();
    let lines = record.lines().map(|line| serde_json::from_str::<serde_json::Value>(line).expect("JSON"));
    let reasons: Vec<String> =
        lines.map(|line| line["reason"].as_str().unwrap_or_default().to_owned()).collect();
    assert_eq!(reasons, ["gateway_token", "not_granted", "not_granted", "network_off"]);
    assert_eq!(site.heard(), ["GET api.example.com /v1/models", "GET api.example.com /v1/models"]);
    assert_eq!(site.keys(), [format!("Bearer {CANARY}"), format!("Bearer {CANARY}")]);
    let got = gate.client.sandboxes.clone().get(GetSandboxRequest { sandbox: sandbox.id.clone() }).await;
    let usage = got.expect("found").into_inner().usage.expect("usage");
    assert_eq!((usage.gateway_requests, usage.gateway_cost, usage.connections), (2, 2, 6));
    // Not in its memory, in which what is in the machine is found.
    gate.shell(&sandbox, "cat > /dev/shm/word", WORD).await.printed();
    let request = PauseSandboxRequest { sandbox: sandbox.id.clone(), ..PauseSandboxRequest::default() };
    gate.client.sandboxes.clone().pause(request).await.expect("paused");
    let monitors = gate.monitors();
    let holding = |needle: &str| monitors.iter().filter(|pid| memory::holds(**pid, needle)).count();
    assert_eq!((holding(WORD), holding(CANARY)), (1, 0), "{monitors:?}");
    let request = ResumeSandboxRequest { sandbox: sandbox.id.clone() };
    gate.client.sandboxes.clone().resume(request).await.expect("resumed");

    // Neither in the environment of anything, nor in a file. From here on what looks for it has it.
    let (first, rest) = CANARY.split_at(10);
    let search = format!(
        r#"{CALL}
import pathlib
print(call("http://ai.gateway.internal/v1/models"))
needle, found = b"{first}" + b"{rest}", []
for place in ["/run", "/tmp", "/home", "/etc", "/var"]:
    for path in pathlib.Path(place).rglob("*"):
        try:
            if path.is_file() and needle in path.read_bytes(): found.append(str(path))
        except OSError: pass
for path in pathlib.Path("/proc").glob("[0-9]*/environ"):
    try:
        if needle in path.read_bytes(): found.append(str(path))
    except OSError: pass
print(found)
"#
    );
    assert_eq!(gate.python(&sandbox, &search).await, ["200 []", "[]"]);

    // Nor in what is written down about it. The sandbox's name is found there, and the operation.
    let log = gate.server.lines().join("\n");
    let audit = std::fs::read_to_string(&audit).expect("an audit log");
    assert!(log.contains(&sandbox.id) && audit.contains("gateway ai/models"), "{log}\n{audit}");
    assert!(!log.contains(CANARY) && !audit.contains(CANARY));
    // Nor would it be in a core: supervisor and worker, which have it, and the monitor never leave one.
    let (server, workers, monitors) = (gate.server.pid(), gate.workers(), gate.monitors());
    assert_eq!((workers.len(), monitors.len()), (1, 1));
    for pid in [server].into_iter().chain(workers).chain(monitors) {
        let limits = std::fs::read_to_string(format!("/proc/{pid}/limits")).expect("it runs");
        let limit = limits.lines().find_map(|line| line.strip_prefix("Max core file size")).expect("a limit");
        assert_eq!(limit.split_whitespace().collect::<Vec<_>>(), ["0", "0", "bytes"], "{pid}");
    }
    gate.close().await;
}
