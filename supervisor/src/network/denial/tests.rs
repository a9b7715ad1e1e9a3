//! Denials that can be read.

use super::*;
use crate::network::name::HostName;

fn denial(reason: DenialReason) -> Denial {
    let target = Target::Name(HostName::parse("evil.example").unwrap());
    Denial { rule: Some("tls evil.example:443".to_owned()), ..Denial::new(reason, "build", &target, 443) }
}

#[test]
fn a_tls_client_gets_the_alert_access_denied() {
    assert_eq!(denial(DenialReason::NotAllowed).reply(&[0x16, 3, 1, 2, 0]), ACCESS_DENIED);
    assert_eq!(ACCESS_DENIED[5..], [2, 49]);
}

#[test]
fn an_http_client_gets_403_with_the_rule_in_json() {
    let reply = denial(DenialReason::HostMismatch).reply(b"GET / HTTP/1.1\r\n");
    let text = String::from_utf8(reply).unwrap();
    let (head, body) = text.split_once("\r\n\r\n").unwrap();
    assert!(head.starts_with("HTTP/1.1 403 Forbidden\r\n"), "{head}");
    assert!(head.contains(&format!("content-length: {}", body.len())), "{head}");
    let body: serde_json::Value = serde_json::from_str(body).unwrap();
    assert_eq!(body["error"], "network_denied");
    assert_eq!(body["reason"], "host_mismatch");
    assert_eq!(body["rule"], "tls evil.example:443");
    assert_eq!(body["policy"], "build");
    assert_eq!(body["host"], "evil.example");
    assert_eq!(body["port"], 443);
    assert!(body["message"].as_str().unwrap().contains("evil.example:443"));
}

#[test]
fn a_client_that_speaks_neither_gets_nothing() {
    for said in [&b""[..], b"SSH-2.0-OpenSSH_9.2\r\n", b"\x00\x00\x00\x08\x04\xd2\x16\x2f", b"get / "] {
        assert!(denial(DenialReason::NotAllowed).reply(said).is_empty());
    }
}

#[test]
fn the_reason_in_json_is_the_reason_in_words() {
    for reason in [
        DenialReason::NetworkOff,
        DenialReason::NotAllowed,
        DenialReason::Port,
        DenialReason::AddressLiteral,
        DenialReason::InvalidName,
        DenialReason::PrivateAddress,
        DenialReason::NotTls,
        DenialReason::NoServerName,
        DenialReason::ServerNameMismatch,
        DenialReason::EncryptedHello,
        DenialReason::NotHttp,
        DenialReason::HostMismatch,
        DenialReason::Tunnel,
        DenialReason::AmbiguousLength,
        DenialReason::TooLarge,
        DenialReason::TooMany,
    ] {
        assert_eq!(serde_json::to_value(reason).unwrap(), reason.as_str());
        assert!(denial(reason).message().contains("evil.example") || reason == DenialReason::PrivateAddress);
    }
}
