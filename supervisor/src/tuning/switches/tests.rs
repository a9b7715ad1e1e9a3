//! Everything is on but what is named, and a name that does not exist is refused.

use super::{GUEST, HOST, Mechanism, Switches};

/// The agent's own table.
const AGENT: &str = include_str!("../../../../guest-agent/src/tuning/switches.rs");

#[test]
fn what_is_named_with_a_minus_is_off_and_nothing_else() {
    let switches = Switches::parse("-head_start,-working_set").expect("known names");
    assert!(!switches.on(Mechanism::HeadStart));
    assert!(!switches.on(Mechanism::WorkingSet));
    assert!(switches.on(Mechanism::CpuWeight));
    assert_eq!(switches.guest_argument(), None, "nothing of the guest's was named");
    assert!(HOST.iter().all(|(_, mechanism)| Switches::default().on(*mechanism)));
}

#[test]
fn an_unknown_name_is_refused_with_all_that_are_known() {
    for word in ["-warp", "head_start", "+head_start", ""] {
        let error = Switches::parse(word).expect_err(word).to_string();
        let (told, hint) = error.split_once("\nhint: ").expect("a hint");
        assert!(told.contains(&format!("{word:?}")), "{told}");
        assert!(HOST.iter().all(|(name, _)| hint.contains(name)), "{hint}");
        assert!(GUEST.iter().all(|name| hint.contains(name)), "{hint}");
    }
    assert!(Switches::parse("-head_start,").is_err(), "an empty name");
}

#[test]
fn the_agent_is_told_its_own_in_one_order() {
    let told = |value| Switches::parse(value).expect("known names").guest_argument();
    assert_eq!(told("-settle,-head_start,-preopened").as_deref(), Some("rekindle.tuning=-preopened,-settle"));
    assert_eq!(told("-preopened,-settle,-settle"), told("-settle,-preopened"));
}

#[test]
fn the_guests_names_are_the_ones_the_agent_knows() {
    let known: Vec<&str> = AGENT
        .lines()
        .filter_map(|line| line.trim().strip_prefix("(\"")?.split_once("\", Mechanism::"))
        .map(|(name, _)| name)
        .collect();
    assert_eq!(known, GUEST);
}
