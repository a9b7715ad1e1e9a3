//! What is a name, and which names a pattern means.

use proptest::prelude::*;

use super::*;

fn name(text: &str) -> HostName {
    HostName::parse(text).unwrap()
}

#[test]
fn a_name_is_kept_in_lower_case_and_without_its_final_dot() {
    for text in ["pypi.org", "PyPI.org", "pypi.org.", "PYPI.ORG."] {
        assert_eq!(name(text).as_str(), "pypi.org");
    }
    assert_eq!(name("_dmarc.xn--bcher-kva.example").as_str(), "_dmarc.xn--bcher-kva.example");
}

#[test]
fn what_a_resolver_takes_for_an_address_is_no_name_in_any_spelling() {
    for text in [
        "127.0.0.1",
        "127.1",
        "0177.0.0.1",
        "0x7f.0.0.1",
        "0X7F.1",
        "2130706433",
        "0x7f000001",
        "1.2.3.4.",
        "a.b.0x7f",
        "169.254.169.0xfe",
        "x.0x",
    ] {
        assert_eq!(HostName::parse(text), Err(InvalidName::Address), "{text}");
    }
}

#[test]
fn what_is_no_name_is_refused() {
    for (text, why) in [
        ("", InvalidName::Empty),
        (".", InvalidName::Empty),
        ("..", InvalidName::Character),
        ("a..b", InvalidName::Character),
        (".a.b", InvalidName::Character),
        ("-a.b", InvalidName::Character),
        ("a-.b", InvalidName::Character),
        ("a b.c", InvalidName::Character),
        ("a\0.c", InvalidName::Character),
        ("a/b.c", InvalidName::Character),
        ("a.b:443", InvalidName::Character),
        ("[::1]", InvalidName::Character),
        ("::ffff:127.0.0.1", InvalidName::Character),
        ("bücher.example", InvalidName::Character),
        ("*.example.com", InvalidName::Character),
        ("localhost", InvalidName::SingleLabel),
    ] {
        assert_eq!(HostName::parse(text), Err(why), "{text:?}");
    }
    assert_eq!(HostName::parse(&format!("{}.com", "a".repeat(64))), Err(InvalidName::TooLong));
    assert_eq!(HostName::parse(&"ab.".repeat(85)), Err(InvalidName::TooLong));
    assert!(HostName::parse(&format!("{}a", "ab.".repeat(84))).is_ok());
}

#[test]
fn a_wildcard_means_what_is_below_a_name_and_nothing_beside_it() {
    let pattern = NamePattern::parse("*.Example.com.").unwrap();
    assert_eq!(pattern.to_string(), "*.example.com");
    for inside in ["a.example.com", "a.b.example.com", "A.EXAMPLE.COM."] {
        assert!(pattern.matches(&name(inside)), "{inside}");
    }
    for outside in ["example.com", "badexample.com", "example.com.evil.org", "a.example.org"] {
        assert!(!pattern.matches(&name(outside)), "{outside}");
    }
}

#[test]
fn a_pattern_that_means_nearly_everything_is_refused() {
    for text in ["*", "*.", "*.com", "*.com.", "a.*.com", "*a.example.com", "*.*.example.com"] {
        assert!(NamePattern::parse(text).is_err(), "{text}");
    }
    assert_eq!(NamePattern::parse("*.com"), Err(InvalidName::TooWide));
}

proptest! {
    #[test]
    fn whatever_is_a_name_is_one_again_and_means_the_same(text in "[ -~]{0,40}|([a-zA-Z0-9_-]{1,8}\\.){1,4}[a-z]{1,5}\\.?") {
        if let Ok(read) = HostName::parse(&text) {
            prop_assert_eq!(HostName::parse(read.as_str()).unwrap(), read.clone());
            prop_assert!(read.as_str().parse::<std::net::IpAddr>().is_err());
            prop_assert!(NamePattern::Exact(read.clone()).matches(&read));
            prop_assert!(!NamePattern::Below(read.clone()).matches(&read));
        }
    }
}
