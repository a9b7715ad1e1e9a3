//! Recording and replaying from inside real guests: unmodified clients over HTTP and TLS, then the same bytes in another
//! sandbox with nobody left to ask.

use rekindle_api::v1::{CreateSandboxRequest, UpdateNetworkRequest};
use rekindle_e2e::authority::Authority;
use rekindle_e2e::site::Site;
use serde_json::Value;

use super::clients::{TEMPLATE, template};
use super::gate::Gate;

const POLICIES: &str = r#"record = { mode = "allow", record = "tape", allow = [
    { host = "www.example.com" }, { host = "mirror.example.org", protocol = "http" }] },
    replay = { mode = "replay", cassette = "tape" }"#;

/// The same by two clients: a warm interpreter's library, and a program.
const PYTHON: &str = "import hashlib, urllib.request\n\
                      for url in ['https://www.example.com/data?page=1', 'http://mirror.example.org/list']:\n    \
                      body = urllib.request.urlopen(url, timeout=200).read()\n    \
                      print(len(body), hashlib.sha256(body).hexdigest())";
const CURL: &str = "curl -sS --fail https://www.example.com/script http://mirror.example.org/list -H 'authorization: canary-4711'";

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_curl_and_python_were_answered_is_answered_again_when_nobody_is_there() {
    let lab = lab!();
    if let Err(reason) = template(lab).await {
        rekindle_test_support::skip!("{reason}");
    }
    let _turn = lab.turn().await;
    let authority = Authority::new();
    let (plain, secure) = (Site::plain().await, Site::secure(authority.server(&["www.example.com"])).await);
    // Bytes of every value, so that nothing on the way takes them for text.
    let bytes: Vec<u8> = (0..300_000_u32).map(|at| (at % 251) as u8).collect();
    secure.put("/data", "application/octet-stream", bytes);
    secure.put("/script", "text/plain", "over TLS\n");
    plain.put("/list", "text/plain", "over HTTP\n");
    let hosts = [("mirror.example.org", plain.address()), ("www.example.com", secure.address())];
    let gate = Gate::open_trusting(lab, TEMPLATE, POLICIES, &hosts, &authority).await;

    // There is nothing to replay yet, and that is said.
    let request = CreateSandboxRequest { network: "replay".to_owned(), ..CreateSandboxRequest::default() };
    let refused = gate.client.sandboxes.clone().create(request).await.expect_err("no cassette");
    assert!(refused.message().contains("there is no cassette tape"), "{refused}");

    let sandbox = gate.sandbox("record").await;
    let by_python = gate.python(&sandbox, PYTHON).await;
    let by_curl = gate.shell(&sandbox, CURL, "").await.printed();
    assert!(by_python[0].starts_with("300000 "), "{by_python:?}");
    assert_eq!(by_curl, "over TLS\nover HTTP");
    assert_eq!((plain.heard().len(), secure.heard().len()), (2, 2));
    assert_eq!(secure.keys(), ["canary-4711"]);
    let reached = (plain.connections(), secure.connections());

    let sandbox = gate.sandbox("replay").await;
    assert_eq!(gate.python(&sandbox, PYTHON).await, by_python);
    assert_eq!((plain.connections(), secure.connections()), reached, "nobody is asked");
    drop((plain, secure));
    assert_eq!(gate.shell(&sandbox, CURL, "").await.printed(), by_curl);
    let missed =
        gate.shell(&sandbox, "curl -sS --fail-with-body https://www.example.com/other?q=1", "").await;
    assert_eq!(missed.code, Some(22), "{missed:?}");
    let told: Value = serde_json::from_str(&missed.stdout).unwrap_or_else(|_| panic!("{missed:?}"));
    assert_eq!((&told["reason"], &told["request"]), (&"not_recorded".into(), &"GET /other?q=1".into()));
    assert_eq!(missed.network.denials[0].reason, "not_recorded", "{missed:?}");
    assert_eq!(
        missed.diagnosis.as_ref().map(|diagnosis| diagnosis.subject.as_str()),
        Some("www.example.com")
    );

    // A sandbox whose programs do not trust it cannot be put under such a policy; the other way is free.
    let update = async |sandbox: &str, network: &str| {
        let request = UpdateNetworkRequest { sandbox: sandbox.to_owned(), network: network.to_owned() };
        gate.client.network.clone().update(request).await
    };
    let other = gate.sandbox("").await;
    let refused = update(&other.id, "replay").await.expect_err("no authority");
    assert!(refused.message().contains("do not trust its authority"), "{refused}");
    update(&sandbox.id, "none").await.expect("put under none");

    let listed: Value =
        serde_json::from_str(&gate.operator(&["cassette", "ls", "--json"]).await).expect("JSON");
    assert_eq!(
        (&listed["cassettes"][0]["name"], &listed["cassettes"][0]["exchanges"]),
        (&"tape".into(), &4.into())
    );
    let shown = gate.operator(&["cassette", "show", "tape"]).await;
    assert!(shown.contains("https://www.example.com:443/data?page=1"), "{shown}");
    let all = gate.operator(&["cassette", "show", "tape", "--json"]).await;
    assert!(!all.contains("canary"), "{all}");
    assert_eq!(gate.operator(&["cassette", "rm", "tape"]).await, "removed tape\n");
    assert!(!gate.operator(&["cassette", "ls"]).await.contains("tape"));
    gate.close().await;
}
