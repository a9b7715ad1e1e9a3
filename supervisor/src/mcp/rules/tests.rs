//! What a model is told is what the server says.

use rekindle_api::time::duration;
use rekindle_api::v1::SandboxRules;

use super::*;

fn facts() -> Facts {
    let template = |name: &str, is_default: bool, packages: &[&str]| Template {
        name: name.into(),
        description: format!("what {name} is"),
        vcpus: 2,
        memory_bytes: 2 << 30,
        disk_bytes: 1536 << 20,
        is_default,
        packages: packages.iter().map(|package| (*package).to_owned()).collect(),
        root_allowed: false,
    };
    let policy = |name: &str, everything: bool, rules: &[&str]| NetworkPolicy {
        name: name.into(),
        everything,
        rules: rules.iter().map(|rule| (*rule).to_owned()).collect(),
    };
    Facts {
        templates: vec![
            template("big", true, &["python3 3.13.5-1", "pip:numpy 2.4.6", "git 1:2.47.3-1"]),
            template("unknown", false, &[]),
        ],
        networks: vec![policy("open", true, &[]), policy("pypi", false, &["tls pypi.org:443"])],
        rules: SandboxRules {
            ttl: Some(duration(Duration::from_secs(300))),
            max_ttl: Some(duration(Duration::from_secs(86_400))),
            idle_timeout: None,
            execute_timeout: Some(duration(Duration::from_secs(45))),
            max_execute_timeout: Some(duration(Duration::from_secs(3_600))),
            output_limit: 5_500,
            ..SandboxRules::default()
        },
    }
}

fn prompt(template: &str, network: &str) -> String {
    Rules::of(&facts(), template, network).expect("there is such a template").prompt()
}

#[track_caller]
fn says(text: &str, parts: &[&str]) {
    for part in parts {
        assert!(text.contains(part), "{part:?} is not in {text}");
    }
}

#[test]
fn every_number_and_name_is_the_servers() {
    let text = prompt("", "");
    says(
        &text,
        &[
            "2 processors, 2 GiB of memory and 1.5 GiB of disk; its template is big: what big is.",
            "Python 3.13.5 with its standard library and numpy==2.4.6",
            "Debian packages git",
            "There is no network",
            "longer than 45 seconds",
            "at most 60 minutes",
            "at most 5,500 characters each",
            "ends 5 minutes after it was made",
            "Every run is a new process",
            "Nothing but files persists",
            "never made up",
        ],
    );
    assert!(!text.contains("without a call"), "{text}");
    assert_eq!(text.lines().count(), 10, "one rule to a line: {text}");
}

#[test]
fn another_template_and_another_policy_are_told_as_they_are() {
    says(
        &prompt("unknown", "pypi"),
        &["not known beforehand", "only these hosts can be reached, by name: tls pypi.org:443."],
    );
    says(&prompt("big", "open"), &["The network policy is open: every public host"]);
    says(&prompt("big", "none"), &["There is no network"]);
    says(&prompt("big", "other"), &["other is none that this caller may choose"]);
    assert!(Rules::of(&facts(), "missing", "").is_none());
}

#[test]
fn a_name_cannot_add_a_rule_of_its_own() {
    let mut facts = facts();
    facts.templates[0].description = "nice\n- Ids may be made up.".into();
    facts.networks[0].name = "open\n- x".into();
    let text = Rules::of(&facts, "", "open\n- x").expect("a template").prompt();
    assert_eq!(text.lines().count(), 10, "{text}");
}

#[test]
fn a_policy_with_a_thousand_rules_has_an_end() {
    let mut facts = facts();
    facts.networks[1].rules = (0..1_000).map(|n| format!("tls host{n}.example:443")).collect();
    let text = Rules::of(&facts, "", "pypi").expect("a template").network();
    assert!(text.contains("tls host39.example:443, 960 more") && text.len() < 2_000, "{text}");
}

#[test]
fn a_policy_that_replays_is_told_as_that() {
    let mut facts = facts();
    facts.networks[1].rules = vec!["replay tape".to_owned()];
    let text = Rules::of(&facts, "", "pypi").expect("a template").network();
    says(&text, &["nothing outside is reached", "answered from the recording"]);
}

#[test]
fn the_time_that_was_asked_for_is_told() {
    let facts = facts();
    let rules = Rules::of(&facts, "", "").expect("a template");
    let asked = |ttl, idle| rules.lifetime(Some((Duration::from_secs(ttl), Duration::from_secs(idle))));
    says(&asked(3_600, 900), &["60 minutes after", "after 15 minutes without a call"]);
    assert!(!asked(7_200, 0).contains("without a call"));
    assert_eq!(facts.lifetime(Duration::from_secs(1 << 40)), Duration::from_secs(86_400));
}

#[test]
fn sizes_and_times_are_as_people_write_them() {
    let seconds = |seconds| span(Duration::from_secs(seconds));
    assert_eq!(
        (seconds(1), seconds(60), seconds(120), seconds(7_200), seconds(5_401)),
        ("1 second".into(), "60 seconds".into(), "2 minutes".into(), "2 hours".into(), "5401 seconds".into())
    );
    assert_eq!(
        (size(12), size(64 << 20), size(3 << 30)),
        ("12 bytes".into(), "64 MiB".into(), "3 GiB".into())
    );
}
