//! The npm package of the TypeScript SDK: what its `package.json` names, compiled by the TypeScript that the large image
//! has, which is pinned by its hash. Called by `dist`.

use std::fs;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result, ensure};
use serde_json::Value;

use super::layout::output;
use super::tree::{Mode, Tree};
use crate::cache::Cache;
use crate::job::{Job, bound_command};
use crate::recipe::Recipe;
use crate::{registry, repo};

const COMPILER: &str = "typescript";

/// The compiler's package, from the cache or the registry.
pub fn compiler(cache: &Cache) -> Result<PathBuf> {
    let recipe = Recipe::load(&repo::root().join("rootfs"), "python-node")?;
    let at = recipe.npm.iter().position(|package| package.name == COMPILER);
    let pinned = &recipe.npm[at.context("the image python-node has no TypeScript")?..][..1];
    let wanted = &description()?["devDependencies"][COMPILER];
    ensure!(
        wanted == &pinned[0].version,
        "sdk/typescript wants TypeScript {wanted}, and rootfs/python-node.toml has {}",
        pinned[0].version
    );
    let mut job = Job::start(cache, "typescript")?;
    let mut found = registry::npm(cache, &mut job, pinned, None)?;
    found.pop().context("there is no TypeScript")
}

/// Makes the package in `out`. An SDK of another version than the server's is refused.
pub fn build(compiler: &Path, version: &str, epoch: &str, out: &Path) -> Result<PathBuf> {
    let description = description()?;
    ensure!(
        description["version"] == version,
        "the SDK has version {} and not {version}: change sdk/typescript/package.json",
        description["version"]
    );
    let work = tempfile::tempdir_in(out)?;
    let unpacked = work.path().join("compiler");
    fs::create_dir(&unpacked)?;
    output(
        bound_command("tar").arg("--extract").arg("--file").arg(compiler).arg("--directory").arg(&unpacked),
    )?;

    let sdk = repo::root().join("sdk/typescript");
    let tree = Tree::create(work.path().join("tree"))?;
    let compiled = work.path().join("compiled");
    let mut tsc = bound_command("node");
    tsc.arg(unpacked.join("package/bin/tsc")).arg("--project").arg(&sdk);
    output(tsc.arg("--outDir").arg(&compiled))?;
    for file in files(&compiled)? {
        tree.copy(&format!("package/dist/{file}"), Mode::Data, &compiled.join(&file))?;
    }
    let named = description["files"].as_array().into_iter().flatten().filter_map(Value::as_str);
    for file in named.filter(|file| *file != "dist").chain(["package.json"]) {
        tree.copy(&format!("package/{file}"), Mode::Data, &sdk.join(file))?;
    }

    let package = out.join(format!("rekindle-{version}.tgz"));
    output(
        bound_command("tar")
            .args(["--create", "--sort=name", "--format=ustar", "--owner=0", "--group=0", "--numeric-owner"])
            .args([&format!("--mtime=@{epoch}"), "--use-compress-program=gzip -9 --no-name", "--file"])
            .arg(&package)
            .arg("--directory")
            .arg(tree.root())
            .arg("package"),
    )?;
    Ok(package)
}

fn description() -> Result<Value> {
    let text = fs::read_to_string(repo::root().join("sdk/typescript/package.json"))?;
    serde_json::from_str(&text).context("sdk/typescript/package.json is not understood")
}

/// What the compiler wrote, by name. The sources are in one folder, and so is that.
fn files(dir: &Path) -> Result<Vec<String>> {
    let mut names = Vec::new();
    for entry in fs::read_dir(dir).context("the compiler wrote nothing")? {
        let name = entry?.file_name().into_string();
        names.push(name.map_err(|name| anyhow::anyhow!("{} is no name", name.display()))?);
    }
    names.sort();
    Ok(names)
}
