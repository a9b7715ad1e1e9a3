//! A sandbox that was given no policy: every connection is denied, and says so.

use rekindle_api::Code;
use rekindle_api::v1::CreateSandboxRequest;
use rekindle_e2e::site::Site;

use super::gate::Gate;

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn without_a_policy_everything_is_denied_and_a_policy_that_is_not_there_is_no_network() {
    let lab = lab!();
    let _turn = lab.turn().await;
    let site = Site::plain().await;
    let rules = "allow = [{ host = \"plain.example.com\", protocol = \"http\" }]";
    let gate = Gate::open(lab, "minimal", rules, &[("plain.example.com", site.address())]).await;
    let source = r#"
print(ask("plain.example.com"))
print(ask("169.254.169.254"))
print(shake("plain.example.com", "plain.example.com"))
"#;
    let expected = ["403 network_off", "403 network_off", "TLSV1_ALERT_ACCESS_DENIED"];
    for network in ["", "none"] {
        let sandbox = gate.sandbox(network).await;
        assert_eq!(sandbox.network, "none");
        assert_eq!(gate.python(&sandbox, source).await, expected);
    }
    // A program that fails of it has a diagnosis that says so, and finds the reason in the sandbox too.
    let sandbox = gate.sandbox("").await;
    let line = "python3 -c 'import urllib.request as u; u.urlopen(\"http://plain.example.com\")'";
    let ran = gate.shell(&sandbox, line, "").await;
    let diagnosis = ran.diagnosis.clone().unwrap_or_else(|| panic!("no diagnosis: {ran:?}"));
    assert_eq!(
        (diagnosis.kind.as_str(), diagnosis.subject.as_str()),
        ("network_denied", "plain.example.com")
    );
    assert_eq!((ran.network.connections, ran.network.denied), (1, 1));
    let record = gate.shell(&sandbox, "cat /run/rekindle/network.jsonl", "").await.printed();
    assert_eq!(record.lines().count(), 1);
    assert!(record.contains("\"reason\":\"network_off\""), "{record}");
    let unknown = CreateSandboxRequest { network: "other".into(), ..CreateSandboxRequest::default() };
    let refused = gate.client.sandboxes.clone().create(unknown).await.expect_err("there is no such policy");
    assert_eq!(refused.code(), Code::InvalidArgument, "{refused:?}");
    assert_eq!(site.connections(), 0);
    gate.close().await;
}
