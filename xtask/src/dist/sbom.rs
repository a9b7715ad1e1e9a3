//! The bill of materials, as CycloneDX: crates that are linked in, what is in kernel and images, and the SDKs.
//!
//! Written here and not by cargo-cyclonedx: that one knows crates alone, and this list is short.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::Path;
use std::process::Command;

use anyhow::{Context, Result};
use serde_json::{Value, json};

use super::date::date;
use super::layout::output;
use super::parts::Parts;
use crate::agent::TARGET;
use crate::cache::MANIFEST;
use crate::recipe::{Node, Recipe};
use crate::{hash, repo};

/// The members of the workspace that are shipped.
const SHIPPED: [&str; 2] = ["rekindle", "rekindle-agent"];

/// The whole document. `sdks` are the packages of the SDKs, each with what kind it is.
pub fn write(parts: &Parts, sdks: &[(&str, &Path)], version: &str, epoch: &str) -> Result<String> {
    let metadata: Value = serde_json::from_slice(&output(
        Command::new(std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into()))
            .current_dir(repo::root())
            .args(["metadata", "--format-version=1", "--locked", "--filter-platform", TARGET]),
    )?)?;
    let lock = fs::read_to_string(repo::root().join("Cargo.lock"))?;
    let mut components = crates(&metadata, &lock)?;
    components.push(kernel(&parts.kernel)?);
    for (name, dir) in &parts.images {
        components.push(image(name, dir)?);
    }
    for (kind, package) in sdks {
        components.push(sdk(kind, package, version)?);
    }
    let document = json!({
        "bomFormat": "CycloneDX",
        "specVersion": "1.5",
        "version": 1,
        "metadata": {
            "timestamp": date(epoch, "+%Y-%m-%dT%H:%M:%SZ")?,
            "component": {
                "type": "application", "name": "rekindle", "version": version,
                "licenses": [{ "license": { "id": "Apache-2.0" } }],
            },
        },
        "components": components,
    });
    Ok(format!("{document:#}\n"))
}

/// Every crate that a shipped program is made with, apart from those of tests alone.
fn crates(metadata: &Value, lock: &str) -> Result<Vec<Value>> {
    let lock: toml::Table = lock.parse()?;
    let locked = lock.get("package").and_then(toml::Value::as_array).context("Cargo.lock has no packages")?;
    let checksum = |name: &str, version: &str| {
        let its = |entry: &&toml::Value| {
            entry.get("name").and_then(toml::Value::as_str) == Some(name)
                && entry.get("version").and_then(toml::Value::as_str) == Some(version)
        };
        locked.iter().find(its)?.get("checksum")?.as_str().map(str::to_owned)
    };
    let wanted = reachable(metadata)?;
    let mut components = BTreeMap::new();
    for package in metadata["packages"].as_array().into_iter().flatten() {
        let (id, name, version) = (text(&package["id"]), text(&package["name"]), text(&package["version"]));
        if !wanted.contains(id) {
            continue;
        }
        let purl = format!("pkg:cargo/{name}@{version}");
        let mut component = json!({
            "type": "library", "bom-ref": purl, "purl": purl, "name": name, "version": version,
            "licenses": [{ "expression": text(&package["license"]).replace('/', " OR ") }],
        });
        if package["license"].is_null() {
            component.as_object_mut().map(|fields| fields.remove("licenses"));
        }
        if let Some(sum) = checksum(name, version) {
            component["hashes"] = json!([{ "alg": "SHA-256", "content": sum }]);
        }
        components.insert((name.to_owned(), version.to_owned()), component);
    }
    Ok(components.into_values().collect())
}

/// The ids of what the shipped programs depend on, through everything but their tests.
fn reachable(metadata: &Value) -> Result<BTreeSet<String>> {
    let nodes = metadata["resolve"]["nodes"].as_array().context("cargo resolved nothing")?;
    let nodes: BTreeMap<&str, &Value> = nodes.iter().map(|node| (text(&node["id"]), node)).collect();
    let packages = metadata["packages"].as_array().into_iter().flatten();
    let mut open: Vec<&str> = packages
        .filter(|package| SHIPPED.contains(&text(&package["name"])))
        .map(|package| text(&package["id"]))
        .collect();
    let mut found = BTreeSet::new();
    while let Some(id) = open.pop() {
        if !found.insert(id.to_owned()) {
            continue;
        }
        let node = nodes.get(id).with_context(|| format!("cargo did not resolve {id}"))?;
        for dependency in node["deps"].as_array().into_iter().flatten() {
            let kinds = dependency["dep_kinds"].as_array();
            if kinds.is_some_and(|kinds| kinds.iter().any(|kind| text(&kind["kind"]) != "dev")) {
                open.push(text(&dependency["pkg"]));
            }
        }
    }
    Ok(found)
}

fn kernel(dir: &Path) -> Result<Value> {
    let manifest = manifest(dir)?;
    // "linux-source-6.1 6.1.140-1": the package and its version.
    let (package, version) =
        text(&manifest["source"]).split_once(' ').context("a kernel without a source")?;
    Ok(json!({
        "type": "operating-system", "name": "linux", "version": version,
        "purl": format!("pkg:deb/debian/{package}@{version}"),
        "licenses": [{ "license": { "id": "GPL-2.0-only" } }],
        "hashes": [{ "alg": "SHA-256", "content": manifest["sha256"] }],
    }))
}

fn image(name: &str, dir: &Path) -> Result<Value> {
    let manifest = manifest(dir)?;
    let recipe = Recipe::load(&repo::root().join("rootfs"), name)?;
    let packages = manifest["packages"].as_array().into_iter().flatten();
    let mut inside: Vec<Value> = packages
        .filter_map(|line| text(line).split_once(' '))
        .map(|(package, version)| part("deb/debian", package, version, None))
        .collect();
    let node = recipe.node.as_ref().map(Node::wheel);
    inside.extend(
        recipe.pip.iter().chain(&node).map(|pin| part("pypi", &pin.name, &pin.version, Some(&pin.sha256))),
    );
    inside.extend(recipe.npm.iter().map(|pin| part("npm", &pin.name, &pin.version, Some(&pin.sha256))));
    Ok(json!({
        "type": "container", "name": name, "description": manifest["description"],
        "hashes": [{ "alg": "SHA-256", "content": manifest["sha256"] }],
        "components": inside,
    }))
}

/// A package for a client's program. What it needs is not in it: the Python SDK names `httpx`, the other one nothing.
fn sdk(kind: &str, package: &Path, version: &str) -> Result<Value> {
    let mut component = part(kind, "rekindle", version, Some(&hash::file(package)?));
    component["bom-ref"] = component["purl"].clone();
    component["licenses"] = json!([{ "license": { "id": "Apache-2.0" } }]);
    let file = package.file_name().context("a package has no name")?;
    component["properties"] = json!([{ "name": "rekindle:file", "value": file.to_string_lossy() }]);
    Ok(component)
}

/// One package of an image, with its hash where the recipe has pinned it.
fn part(kind: &str, name: &str, version: &str, sha256: Option<&str>) -> Value {
    let mut part = json!({
        "type": "library", "name": name, "version": version, "purl": format!("pkg:{kind}/{name}@{version}"),
    });
    if let Some(sha256) = sha256 {
        part["hashes"] = json!([{ "alg": "SHA-256", "content": sha256 }]);
    }
    part
}

fn manifest(dir: &Path) -> Result<Value> {
    let path = dir.join(MANIFEST);
    let text = fs::read_to_string(&path).with_context(|| format!("cannot read {}", path.display()))?;
    Ok(serde_json::from_str(&text)?)
}

fn text(value: &Value) -> &str {
    value.as_str().unwrap_or_default()
}

#[cfg(test)]
mod tests;
