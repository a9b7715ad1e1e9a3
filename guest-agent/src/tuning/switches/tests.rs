//! Every mechanism can be switched off by its name, and nothing else can.

use super::*;

#[test]
fn each_name_switches_off_its_own_mechanism() {
    for (name, mechanism) in NAMES {
        let switches = Switches::parse(&format!("-{name}")).expect("a known name");
        for (_, other) in NAMES {
            assert_eq!(switches.on(other), other != mechanism, "{name}: {other:?}");
        }
    }
    let both = Switches::parse("-affinity,-settle").expect("known names");
    assert!(!both.on(Mechanism::Affinity) && !both.on(Mechanism::Settle) && both.on(Mechanism::Preopened));
}

#[test]
fn what_is_no_switch_is_refused() {
    for value in ["affinity", "-", "-nosuch", "-affinity,", "+affinity", "-affinity settle"] {
        assert_eq!(Switches::parse(value), None, "{value:?}");
    }
}
