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
    let both = Switches::parse("-spare_cgroup,-settle").expect("known names");
    assert!(!both.on(Mechanism::SpareCgroup) && !both.on(Mechanism::Settle) && both.on(Mechanism::Preopened));
}

#[test]
fn what_is_no_switch_is_refused() {
    for value in ["settle", "-", "-nosuch", "-settle,", "+settle", "-settle preopened"] {
        assert_eq!(Switches::parse(value), None, "{value:?}");
    }
}
