//! Which policies there can be, and which rule counts.

use proptest::prelude::*;

use super::spec::{FULL_BYTES_PER_SECOND, FULL_CONNECTIONS_AT_ONCE};
use super::*;

fn rule(host: &str, ports: &[u16], protocol: Protocol) -> RuleSpec {
    RuleSpec { host: host.to_owned(), ports: ports.to_vec(), protocol, record: None }
}

fn allow(rules: Vec<RuleSpec>) -> Result<Policy, InvalidPolicy> {
    Policy::new("build", &PolicySpec { mode: Access::Allow, allow: rules, ..PolicySpec::default() })
}

fn target(name: &str) -> Target {
    Target::Name(HostName::parse(name).unwrap())
}

fn reason(policy: &Policy, name: &str, port: u16) -> Option<DenialReason> {
    policy.decide(&target(name), port).err().map(|denial| denial.reason)
}

#[test]
fn without_a_policy_everything_is_denied() {
    let policy = Policy::none();
    assert_eq!(reason(&policy, "pypi.org", 443), Some(DenialReason::NetworkOff));
    let address = Target::Address("1.1.1.1".parse().unwrap());
    assert_eq!(policy.decide(&address, 443).unwrap_err().reason, DenialReason::NetworkOff);
}

#[test]
fn what_no_rule_names_is_denied_and_the_denial_says_what_was_asked_for() {
    let policy = allow(vec![rule("pypi.org", &[], Protocol::Tls)]).unwrap();
    assert_eq!(policy.decide(&target("pypi.org"), 443).unwrap().to_string(), "tls pypi.org:443");
    let denial = policy.decide(&target("evil.example"), 443).unwrap_err();
    assert_eq!(denial.reason, DenialReason::NotAllowed);
    assert!(denial.message().contains("evil.example:443"), "{}", denial.message());
    assert!(denial.message().contains("build"), "{}", denial.message());
}

#[test]
fn a_rule_is_for_its_ports_alone() {
    let policy = allow(vec![rule("db.example.com", &[5432, 6432], Protocol::Tcp)]).unwrap();
    assert_eq!(reason(&policy, "db.example.com", 5432), None);
    assert_eq!(reason(&policy, "db.example.com", 6432), None);
    assert_eq!(reason(&policy, "db.example.com", 22), Some(DenialReason::Port));
}

#[test]
fn an_address_that_was_not_looked_up_is_denied() {
    let policy = allow(vec![rule("*.example.com", &[], Protocol::Tls)]).unwrap();
    for address in ["1.1.1.1", "169.254.169.254", "2606:4700::1111", "::1"] {
        let denial = policy.decide(&Target::Address(address.parse().unwrap()), 443).unwrap_err();
        assert_eq!(denial.reason, DenialReason::AddressLiteral);
    }
}

#[test]
fn the_rule_that_says_most_counts_whatever_the_order() {
    let mut rules = vec![
        rule("*.example.com", &[443], Protocol::Tls),
        rule("*.git.example.com", &[443], Protocol::Tcp),
        rule("a.git.example.com", &[443], Protocol::Http),
    ];
    for _ in 0..2 {
        let policy = allow(rules.clone()).unwrap();
        for (name, protocol) in [
            ("x.example.com", Protocol::Tls),
            ("b.git.example.com", Protocol::Tcp),
            ("a.git.example.com", Protocol::Http),
            ("git.example.com", Protocol::Tls),
        ] {
            assert_eq!(policy.decide(&target(name), 443).unwrap().protocol, protocol, "{name}");
        }
        rules.reverse();
    }
}

#[test]
fn a_policy_that_cannot_mean_what_it_says_is_refused() {
    let conflict = allow(vec![rule("a.b", &[443], Protocol::Tls), rule("A.b.", &[443], Protocol::Tcp)]);
    assert!(matches!(conflict, Err(InvalidPolicy::Conflict { port: 443, .. })));
    assert!(allow(vec![rule("a.b", &[443], Protocol::Tls), rule("a.b", &[], Protocol::Tls)]).is_ok());
    assert!(matches!(allow(vec![rule("a.b", &[], Protocol::Tcp)]), Err(InvalidPolicy::NoPort { .. })));
    for port in [0, 53] {
        let refused = allow(vec![rule("a.b", &[443, port], Protocol::Tcp)]);
        assert!(matches!(refused, Err(InvalidPolicy::NoSuchPort { .. })), "{port}: {refused:?}");
    }
    assert!(matches!(allow(vec![rule("127.0.0.1", &[], Protocol::Tls)]), Err(InvalidPolicy::Host { .. })));
    assert!(matches!(allow(vec![rule("*", &[], Protocol::Tls)]), Err(InvalidPolicy::Host { .. })));
    assert_eq!(allow(Vec::new()), Err(InvalidPolicy::Empty));
    let many = (0..=MAX_RULES).map(|n| rule(&format!("h{n}.example.com"), &[], Protocol::Tls)).collect();
    assert_eq!(allow(many), Err(InvalidPolicy::TooMany));
    let unused = PolicySpec { presets: vec!["pypi".to_owned()], ..PolicySpec::default() };
    assert_eq!(Policy::new("off", &unused), Err(InvalidPolicy::Unused));
    for name in ["", "none", "A", "a b", &"a".repeat(64)] {
        assert_eq!(Policy::new(name, &PolicySpec::default()), Err(InvalidPolicy::Name));
    }
}

#[test]
fn every_preset_can_be_used_and_together_they_do_not_conflict() {
    let presets: Vec<String> = presets::names().map(str::to_owned).collect();
    for preset in &presets {
        let spec = PolicySpec { mode: Access::Allow, presets: vec![preset.clone()], ..PolicySpec::default() };
        Policy::new("one", &spec).unwrap();
    }
    let all = Policy::new("all", &PolicySpec { mode: Access::Allow, presets, ..PolicySpec::default() });
    let all = all.unwrap();
    for name in [
        "pypi.org",
        "files.pythonhosted.org",
        "registry.npmjs.org",
        "static.crates.io",
        "codeload.github.com",
    ] {
        assert_eq!(all.decide(&target(name), 443).unwrap().protocol, Protocol::Tls);
        assert_eq!(reason(&all, name, 80), Some(DenialReason::Port));
    }
    assert_eq!(all.decide(&target("deb.debian.org"), 80).unwrap().protocol, Protocol::Http);
    let unknown =
        PolicySpec { mode: Access::Allow, presets: vec!["pipy".to_owned()], ..PolicySpec::default() };
    let error = Policy::new("typo", &unknown).unwrap_err().to_string();
    assert!(error.contains("pipy") && error.contains("pypi"), "{error}");
}

#[test]
fn a_policy_reads_as_operators_write_it() {
    let text = r#"
        mode = "allow"
        presets = ["pypi"]
        allow = [{ host = "*.example.com" }, { host = "git.example.org", ports = [22], protocol = "tcp" }]
    "#;
    let policy = Policy::new("build", &toml::from_str(text).unwrap()).unwrap();
    assert_eq!(policy.decide(&target("a.example.com"), 443).unwrap().protocol, Protocol::Tls);
    assert_eq!(policy.decide(&target("git.example.org"), 22).unwrap().protocol, Protocol::Tcp);
    assert!(toml::from_str::<PolicySpec>("mode = \"open\"").is_err());
    assert!(toml::from_str::<PolicySpec>("allow = [{ host = \"a.b\", port = 1 }]").is_err());
}

proptest! {
    /// What is let through is what a rule says word for word: the reference looks at texts alone.
    #[test]
    fn nothing_is_let_through_that_no_rule_says(
        hosts in prop::collection::vec(("[*]?", "[ab]\\.[ab]\\.[cd]", 1u16..4), 1..6),
        asked in "[ab]\\.([ab]\\.)?[ab]\\.[cd]",
        port in 1u16..4,
    ) {
        let rules: Vec<RuleSpec> = hosts
            .iter()
            .map(|(star, name, port)| {
                let host = if star.is_empty() { name.clone() } else { format!("*.{name}") };
                rule(&host, &[*port], Protocol::Tls)
            })
            .collect();
        let policy = allow(rules.clone()).unwrap();
        let expected = rules.iter().any(|rule| {
            rule.ports.contains(&port) && match rule.host.strip_prefix('*') {
                Some(tail) => asked.ends_with(tail),
                None => asked == rule.host,
            }
        });
        prop_assert_eq!(policy.decide(&target(&asked), port).is_ok(), expected);
    }
}

#[test]
fn a_full_policy_has_no_rules_and_no_policy_has_a_budget_of_nothing() {
    let spec = |text: &str| Policy::new("open", &toml::from_str(text).unwrap());
    let open = spec("mode = \"full\"\nbudget = { bytes_up = 1, bytes_per_second = 1000 }").unwrap();
    assert_eq!(open.budget().bytes_up, Some(1));
    assert_eq!(open.decide(&target("any.example"), 1).unwrap().to_string(), "tcp *:1");
    assert_eq!(spec("mode = \"full\"\npresets = [\"pypi\"]"), Err(InvalidPolicy::Unused));
    // Names are answered in the sandbox: whoever brings a question here is no program that looks one up.
    for server in [target("dns.example"), Target::Address("8.8.8.8".parse().unwrap())] {
        assert_eq!(open.decide(&server, 53).unwrap_err().reason, DenialReason::Port, "{server}");
        assert!(open.decide(&server, 853).is_ok());
    }
    for what in
        ["bytes_up", "bytes_down", "requests", "connections", "connections_at_once", "bytes_per_second"]
    {
        let zero = spec(&format!("mode = \"full\"\nbudget = {{ {what} = 0 }}"));
        assert_eq!(zero, Err(InvalidPolicy::Zero { what }));
    }
}

#[test]
fn a_policy_that_lets_everything_through_has_a_pace_whatever_it_says() {
    let budget = |text: &str| *Policy::new("test", &toml::from_str(text).unwrap()).unwrap().budget();
    let (pace, at_once) = (Some(FULL_BYTES_PER_SECOND), Some(FULL_CONNECTIONS_AT_ONCE));
    let bounds = Budget { bytes_per_second: pace, connections_at_once: at_once, ..Budget::default() };
    assert_eq!(budget("mode = \"full\""), bounds);
    let own = budget("mode = \"full\"\nbudget = { bytes_per_second = 7, requests = 9 }");
    assert_eq!(own, Budget { bytes_per_second: Some(7), requests: Some(9), ..bounds });
    let own = budget("mode = \"full\"\nbudget = { connections_at_once = 128 }");
    assert_eq!(own, Budget { connections_at_once: Some(128), ..bounds });
    // Where rules say what is let through, the operator has said who it is.
    assert_eq!(budget("mode = \"allow\"\npresets = [\"npm\"]"), Budget::default());
}

#[test]
fn what_is_recorded_and_replayed_is_said_in_one_way() {
    let policy = |text: &str| Policy::new("test", &toml::from_str::<PolicySpec>(text).unwrap());
    let recorded = policy(
        "mode = \"allow\"\nrecord = \"all\"\npresets = [\"npm\"]\n\
         allow = [{ host = \"a.example.com\", record = \"own\" }, { host = \"b.example.com\", ports = [22], protocol = \"tcp\" }]",
    )
    .unwrap();
    assert!(recorded.intercepts() && recorded.replayed().is_none());
    assert_eq!(
        recorded.listed(),
        ["tls a.example.com:443 record own", "tcp b.example.com:22", "tls registry.npmjs.org:443 record all"]
    );
    let replayed = policy("mode = \"replay\"\ncassette = \"all\"").unwrap();
    assert!(replayed.intercepts() && replayed.replayed().is_some());
    assert_eq!(replayed.listed(), ["replay all"]);
    assert!(!policy("mode = \"full\"").unwrap().intercepts());
    for (text, error) in [
        ("mode = \"replay\"", InvalidPolicy::Cassette),
        ("mode = \"full\"\ncassette = \"all\"", InvalidPolicy::Cassette),
        ("mode = \"replay\"\ncassette = \"all\"\npresets = [\"npm\"]", InvalidPolicy::Unused),
        ("mode = \"full\"\nrecord = \"all\"", InvalidPolicy::Unused),
        (
            "mode = \"allow\"\nallow = [{ host = \"b.example.com\", ports = [22], protocol = \"tcp\", record = \"a\" }]",
            InvalidPolicy::RecordsTcp { host: "b.example.com".to_owned() },
        ),
        (
            "mode = \"allow\"\nallow = [{ host = \"b.example.com\" }, { host = \"b.example.com\", record = \"a\" }]",
            InvalidPolicy::RecordedTwice { host: "b.example.com".to_owned(), port: 443 },
        ),
    ] {
        assert_eq!(policy(text), Err(error), "{text}");
    }
    for name in ["a/b", "../a", "A", ""] {
        let text = format!("mode = \"replay\"\ncassette = \"{name}\"");
        assert!(toml::from_str::<PolicySpec>(&text).is_err(), "{name}");
    }
}
