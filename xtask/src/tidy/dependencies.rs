//! Rule: what the programs are made of has a licence, a source and a version that `deny.toml` allows.
//!
//! The part of `cargo deny check` that needs no network, from `cargo metadata` and the lock file. `deny.toml` is the one
//! place where something is allowed, for both.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::Path;
use std::process::Command;

use anyhow::{Context, Result, bail};
use serde::Deserialize;

/// Where crates may come from.
const CRATES_IO: &str = "registry+https://github.com/rust-lang/crates.io-index";

#[derive(Deserialize)]
struct Rules {
    graph: Graph,
    licenses: Licenses,
}

#[derive(Deserialize)]
struct Graph {
    targets: Vec<String>,
}

#[derive(Deserialize)]
struct Licenses {
    allow: Vec<String>,
}

#[derive(Deserialize)]
struct Metadata {
    packages: Vec<Package>,
    resolve: Resolve,
}

#[derive(Deserialize)]
struct Resolve {
    nodes: Vec<Node>,
}

#[derive(Deserialize)]
struct Node {
    id: String,
}

#[derive(Deserialize)]
struct Package {
    id: String,
    name: String,
    version: String,
    /// `None` for a crate of this workspace.
    source: Option<String>,
    license: Option<String>,
    dependencies: Vec<Dependency>,
}

#[derive(Deserialize)]
struct Dependency {
    name: String,
    req: String,
    path: Option<String>,
}

#[derive(Deserialize)]
struct Lock {
    package: Vec<Locked>,
}

#[derive(Deserialize)]
struct Locked {
    name: String,
    version: String,
    checksum: Option<String>,
}

/// Checks what a checkout depends on.
pub fn check(root: &Path) -> Result<Vec<String>> {
    let read =
        |name: &str| fs::read_to_string(root.join(name)).with_context(|| format!("cannot read {name}"));
    let rules: Rules = toml::from_str(&read("deny.toml")?).context("deny.toml is not understood")?;
    let lock: Lock = toml::from_str(&read("Cargo.lock")?).context("Cargo.lock is not understood")?;
    let mut command = Command::new(std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into()));
    command.current_dir(root).args(["metadata", "--format-version=1", "--locked", "--quiet"]);
    command.args(rules.graph.targets.iter().flat_map(|target| ["--filter-platform", target]));
    let told = command.output().context("cannot start cargo metadata")?;
    if !told.status.success() {
        bail!("cargo metadata failed: {}", String::from_utf8_lossy(&told.stderr));
    }
    let metadata = serde_json::from_slice(&told.stdout).context("cargo metadata is not understood")?;
    Ok(complaints(&metadata, &lock, &rules.licenses.allow))
}

fn complaints(metadata: &Metadata, lock: &Lock, allowed: &[String]) -> Vec<String> {
    let resolved: BTreeSet<&str> = metadata.resolve.nodes.iter().map(|node| node.id.as_str()).collect();
    let sums: BTreeMap<(&str, &str), bool> = lock
        .package
        .iter()
        .map(|locked| ((locked.name.as_str(), locked.version.as_str()), locked.checksum.is_some()))
        .collect();
    let mut complaints = Vec::new();
    for package in metadata.packages.iter().filter(|package| resolved.contains(package.id.as_str())) {
        let Package { name, version, source, license, dependencies, .. } = package;
        let Some(source) = source else {
            for Dependency { name: other, req, .. } in
                dependencies.iter().filter(|one| one.req == "*" && one.path.is_none())
            {
                complaints.push(format!("{name}: takes {other} in any version (`{req}`)"));
            }
            continue;
        };
        if source != CRATES_IO {
            complaints.push(format!("{name} {version}: comes from {source}"));
        } else if sums.get(&(name.as_str(), version.as_str())) != Some(&true) {
            complaints.push(format!("{name} {version}: has no checksum in Cargo.lock"));
        }
        match license.as_deref().map(|license| permits(license, allowed)) {
            Some(Ok(true)) => {}
            Some(Ok(false)) => complaints.push(format!(
                "{name} {version}: its licence `{}` is not allowed by deny.toml",
                license.as_deref().unwrap_or_default()
            )),
            Some(Err(error)) => complaints.push(format!("{name} {version}: {error}")),
            None => complaints.push(format!("{name} {version}: says no licence")),
        }
    }
    complaints
}

/// Whether the allowed licences satisfy an SPDX expression.
fn permits(expression: &str, allowed: &[String]) -> Result<bool, String> {
    // Before there were expressions, a slash meant a choice.
    let spaced = expression.replace('/', " OR ").replace('(', " ( ").replace(')', " ) ");
    let words: Vec<&str> = spaced.split_whitespace().collect();
    let mut reader = Reader { words: &words, allowed };
    let permitted = reader.choice().filter(|_| reader.words.is_empty());
    permitted.ok_or_else(|| format!("its licence `{expression}` is no expression"))
}

/// Reads an expression from left to right; `OR` binds less than `AND`, and that less than `WITH`.
struct Reader<'a> {
    words: &'a [&'a str],
    allowed: &'a [String],
}

impl<'a> Reader<'a> {
    fn take(&mut self, word: &str) -> bool {
        let there = self.words.first() == Some(&word);
        self.words = &self.words[usize::from(there)..];
        there
    }

    fn choice(&mut self) -> Option<bool> {
        let mut permitted = self.all()?;
        while self.take("OR") {
            permitted |= self.all()?;
        }
        Some(permitted)
    }

    fn all(&mut self) -> Option<bool> {
        let mut permitted = self.one()?;
        while self.take("AND") {
            permitted &= self.one()?;
        }
        Some(permitted)
    }

    fn one(&mut self) -> Option<bool> {
        if self.take("(") {
            let permitted = self.choice()?;
            return self.take(")").then_some(permitted);
        }
        let name = self.name()?.to_owned();
        let name = if self.take("WITH") { format!("{name} WITH {}", self.name()?) } else { name };
        Some(self.allowed.contains(&name))
    }

    fn name(&mut self) -> Option<&'a str> {
        let (name, rest) = self.words.split_first()?;
        self.words = rest;
        (!["(", ")", "OR", "AND", "WITH"].contains(name)).then_some(*name)
    }
}

#[cfg(test)]
mod tests;
