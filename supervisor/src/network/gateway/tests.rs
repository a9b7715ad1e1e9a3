//! Which names are the gateway's.

use super::*;

#[test]
fn every_name_below_the_gateways_is_its_own_and_no_other() {
    for (name, service) in [
        ("openai.gateway.internal", Some("openai")),
        ("OpenAI.Gateway.Internal.", Some("openai")),
        ("gateway.internal", Some("")),
        ("a.b.gateway.internal", Some("a.b")),
        ("xgateway.internal", None),
        ("gateway.internal.example.com", None),
        ("openai.internal", None),
    ] {
        let name = HostName::parse(name).unwrap();
        assert_eq!(asked_service(&name), service, "{name}");
    }
}
