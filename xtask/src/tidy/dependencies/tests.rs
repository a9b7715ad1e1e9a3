//! What is allowed, and what is complained about.

use serde_json::json;

use super::*;

fn allowed() -> Vec<String> {
    ["MIT", "Apache-2.0", "Apache-2.0 WITH LLVM-exception"].map(str::to_owned).into()
}

#[test]
fn an_expression_is_permitted_where_one_choice_is_allowed_whole() {
    for (expression, permitted) in [
        ("MIT", true),
        ("MIT OR GPL-3.0-only", true),
        ("GPL-3.0-only/MIT", true),
        ("MIT AND GPL-3.0-only", false),
        ("GPL-3.0-only", false),
        ("(MIT OR GPL-3.0-only) AND Apache-2.0", true),
        ("GPL-3.0-only OR MIT AND Apache-2.0", true),
        ("(GPL-3.0-only OR MIT) AND MPL-2.0", false),
        ("Apache-2.0 WITH LLVM-exception OR Apache-2.0 OR MIT", true),
        ("MIT WITH Autoconf-exception-3.0", false),
    ] {
        assert_eq!(permits(expression, &allowed()), Ok(permitted), "{expression}");
    }
    for nonsense in ["", "MIT OR", "(MIT", "MIT)", "MIT Apache-2.0", "OR MIT", "MIT WITH"] {
        permits(nonsense, &allowed()).expect_err(nonsense);
    }
}

#[test]
fn each_crate_has_an_allowed_licence_a_known_source_and_a_checksum() {
    let told = |source: &str, license: serde_json::Value, req: &str, sum: bool| {
        let metadata = json!({
            "packages": [
                { "id": "own", "name": "own", "version": "0.1.0", "source": null, "license": null, "dependencies": [
                    { "name": "other", "req": req, "path": null },
                    { "name": "beside", "req": "*", "path": "/beside" },
                ] },
                { "id": "other", "name": "other", "version": "1.0.0", "source": source, "license": license,
                  "dependencies": [{ "name": "third", "req": "*", "path": null }] },
                { "id": "unused", "name": "unused", "version": "1.0.0", "source": "git+https://example.org",
                  "license": null, "dependencies": [] },
            ],
            "resolve": { "nodes": [{ "id": "own" }, { "id": "other" }] },
        });
        let lock = json!({ "package": [
            { "name": "other", "version": "1.0.0", "checksum": sum.then_some("00") },
        ] });
        let metadata = serde_json::from_value(metadata).unwrap();
        complaints(&metadata, &serde_json::from_value(lock).unwrap(), &allowed())
    };
    assert_eq!(told(CRATES_IO, json!("MIT"), "1", true), [""; 0]);
    for (source, license, req, sum) in [
        ("git+https://example.org", json!("MIT"), "1", true),
        ("registry+https://example.org", json!("MIT"), "1", true),
        (CRATES_IO, json!("GPL-3.0-only"), "1", true),
        (CRATES_IO, json!("nonsense words"), "1", true),
        (CRATES_IO, json!(null), "1", true),
        (CRATES_IO, json!("MIT"), "*", true),
        (CRATES_IO, json!("MIT"), "1", false),
    ] {
        let complaints = told(source, license.clone(), req, sum);
        assert_eq!(complaints.len(), 1, "{source} {license} {req} {sum}: {complaints:?}");
    }
}
