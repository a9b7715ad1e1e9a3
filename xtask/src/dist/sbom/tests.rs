//! What counts as shipped.

use super::*;

fn package(name: &str) -> Value {
    json!({ "id": format!("id {name}"), "name": name, "version": "1.0.0", "license": "MIT/Apache-2.0" })
}

fn node(name: &str, deps: &[(&str, Option<&str>)]) -> Value {
    let dep = |(name, kind): &(&str, Option<&str>)| json!({ "pkg": format!("id {name}"), "dep_kinds": [{ "kind": kind, "target": null }] });
    json!({ "id": format!("id {name}"), "deps": deps.iter().map(dep).collect::<Vec<_>>() })
}

#[test]
fn crates_of_shipped_programs_are_listed_and_those_of_tests_are_not() {
    let names = ["rekindle", "rekindle-agent", "serde", "cc", "proptest", "xtask"];
    let metadata = json!({
        "packages": names.map(package),
        "resolve": { "nodes": [
            node("rekindle", &[("serde", None), ("cc", Some("build")), ("proptest", Some("dev"))]),
            node("rekindle-agent", &[("serde", None)]),
            node("serde", &[]), node("cc", &[]), node("proptest", &[]), node("xtask", &[("serde", None)]),
        ] },
    });
    let lock = "[[package]]\nname = \"serde\"\nversion = \"1.0.0\"\nchecksum = \"abc\"\n";
    let listed = crates(&metadata, lock).unwrap();
    let names: Vec<&str> = listed.iter().map(|component| text(&component["name"])).collect();
    assert_eq!(names, ["cc", "rekindle", "rekindle-agent", "serde"]);
    assert_eq!(listed[3]["hashes"][0]["content"], "abc");
    assert_eq!(listed[3]["licenses"][0]["expression"], "MIT OR Apache-2.0");
}
