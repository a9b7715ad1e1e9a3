//! Tests in JavaScript: they import the source beside them, so both are copied to where their packages are.

use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result, ensure};
use serde_json::{Map, Value, json};

use super::pytest::key;
use crate::cache::Cache;
use crate::job::Job;

/// Of what the tests' authors need while they develop, what running the tests takes.
const RUNNER: [&str; 4] = ["vitest", "msw", "dotenv", "error-stack-parser-es"];
/// What is copied.
const FOLDERS: [&str; 2] = ["src", "tests"];
/// Left out are other runtimes, and the SDK's own bundle, which is not made. One test may take longer than its authors allow,
/// since its programs may run on an emulated processor.
const CONFIG: &str = "
import { existsSync } from 'node:fs'
import { defineConfig } from 'vitest/config'
const setup = 'tests/globalFetchFallback.setup.ts'
export default defineConfig({
  test: {
    include: ['tests/**/*.test.ts'],
    exclude: ['tests/runtimes/**', 'tests/*.browser.test.ts', 'tests/bundle/**'],
    setupFiles: existsSync(setup) ? [setup] : [],
    testTimeout: 240_000,
    hookTimeout: 240_000,
    maxWorkers: 2,
    environment: 'node',
    deps: { interopDefault: true },
  },
})
";

/// A folder with the tests, the source that they import, and the packages of both, which are installed once.
pub fn environment(cache: &Cache, name: &str, tests: &Path) -> Result<PathBuf> {
    let package = std::fs::read(tests.join("package.json")).context("no package.json")?;
    let dir = cache.root().join("compat").join(format!("{name}-{}", key(&package)));
    std::fs::create_dir_all(&dir).with_context(|| format!("cannot make {}", dir.display()))?;
    let whole = dir.join("whole");
    let mut job = Job::start(cache, "compat environment")?;
    job.step("the tests and their source")?;
    for folder in FOLDERS {
        let copy = dir.join(folder);
        if copy.exists() {
            std::fs::remove_dir_all(&copy).with_context(|| format!("cannot remove {}", copy.display()))?;
        }
        job.run(Command::new("cp").arg("-R").arg(tests.join(folder)).arg(&copy))?;
    }
    std::fs::write(dir.join("vitest.config.mts"), CONFIG).context("no vitest.config.mts")?;
    if !whole.exists() {
        let package = serde_json::from_slice(&package).context("package.json is not understood")?;
        std::fs::write(dir.join("package.json"), reduced(&package).to_string()).context("no package.json")?;
        job.step("the packages and what runs their tests")?;
        let mut npm = Command::new("npm");
        npm.current_dir(&dir).args(["install", "--no-audit", "--no-fund", "--no-package-lock"]);
        job.run(&mut npm)?;
        std::fs::write(&whole, "").with_context(|| format!("cannot write {}", whole.display()))?;
    }
    job.finish(name);
    Ok(dir)
}

/// What runs tests there.
pub fn program(dir: &Path) -> PathBuf {
    dir.join("node_modules/.bin/vitest")
}

/// Runs them; `vitest` is a command that starts [`program`].
pub fn command(mut vitest: Command, dir: &Path, only: &[PathBuf], report: &str) -> Result<Command> {
    let inside = |path: &PathBuf| path.is_relative();
    ensure!(
        only.iter().all(inside),
        "tests are named below their folder, such as tests/sandbox/host.test.ts"
    );
    vitest.current_dir(dir).args(["run", "--reporter=default", "--reporter=junit"]);
    vitest.arg(format!("--outputFile.junit={report}")).args(only);
    Ok(vitest)
}

/// The file of a test that a report calls `tests/sandbox/host.test.ts.suite > test`, and an expression for its whole name
/// as vitest compares it.
pub fn file_and_name(test: &str) -> Option<(&str, String)> {
    let (file, name) = test.split_once(".test.ts.")?;
    let file = &test[..file.len() + ".test.ts".len()];
    let mut pattern = String::from("^");
    for character in name.replace(" > ", " ").chars() {
        if character.is_ascii_punctuation() {
            pattern.push('\\');
        }
        pattern.push(character);
    }
    Some((file, pattern + "$"))
}

/// A description of the package with what it needs and what its tests need, and nothing of how it is made.
fn reduced(package: &Value) -> Value {
    let needed = |kind: &str| package[kind].as_object().cloned().unwrap_or_default();
    let developed: Map<String, Value> =
        needed("devDependencies").into_iter().filter(|(name, _)| RUNNER.contains(&name.as_str())).collect();
    json!({
        "name": package["name"],
        "version": package["version"],
        "private": true,
        "dependencies": needed("dependencies"),
        "optionalDependencies": needed("optionalDependencies"),
        "devDependencies": developed,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_test_is_found_by_the_name_that_a_report_has_for_it() {
        let found = file_and_name("tests/sandbox/network.test.ts.allow=true > works (now)");
        assert_eq!(found, Some(("tests/sandbox/network.test.ts", r"^allow\=true works \(now\)$".to_owned())));
        assert_eq!(file_and_name("tests.sync.test_run"), None);
    }

    #[test]
    fn what_only_its_makers_need_is_left_out() {
        let package = json!({
            "name": "e2b", "version": "1", "scripts": {"prepare": "make"}, "dependencies": {"undici": "^7"},
            "devDependencies": {"vitest": "^4", "wrangler": "^4", "playwright": "^1"},
        });
        let reduced = reduced(&package);
        assert_eq!(reduced["dependencies"], json!({"undici": "^7"}));
        assert_eq!(reduced["devDependencies"], json!({"vitest": "^4"}));
        assert_eq!(reduced["scripts"], Value::Null);
    }
}
