//! The suites that are known, and how each is told from what a folder holds.

use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result, bail, ensure};
use serde_json::Value;

use super::pytest::Packages;
use super::server::Server;
use super::{pytest, text, vitest};
use crate::cache::Cache;
use crate::repo;

/// The minor version of Python that E2B's packages need.
const OLDEST: u32 = 10;

/// The suites of frameworks that reach a sandbox through E2B's SDK or Rekindle's own: their packages bring them, nothing is
/// copied.
#[derive(Clone, Copy, PartialEq, Eq, Debug, clap::ValueEnum)]
pub enum Framework {
    /// The standard tests of deepagents' sandboxes, with `langchain-e2b`
    Langchain,
    /// The conformance suite of pydantic-ai's workspaces, with `pydantic-ai-harness`
    PydanticAi,
    /// The self-check of `inspect_ai`'s sandbox environments
    InspectAi,
    /// An agent of smolagents with a model that is scripted
    Smolagents,
    /// Agents of openai-agents with a model that is scripted, and the sessions of their sandboxes
    OpenaiAgents,
    /// Trials of Harbor that its oracle solves; only with `--own`
    Harbor,
    /// Tools of agno that use E2B's SDK; never with `--own`
    Agno,
}

impl Framework {
    fn name(self) -> &'static str {
        match self {
            Self::Langchain => "langchain",
            Self::PydanticAi => "pydantic-ai",
            Self::InspectAi => "inspect-ai",
            Self::Smolagents => "smolagents",
            Self::OpenaiAgents => "openai-agents",
            Self::Harbor => "harbor",
            Self::Agno => "agno",
        }
    }

    /// The extra of the Python SDK that brings it and its adapter, where it has one.
    fn extra(self) -> Option<&'static str> {
        match self {
            Self::Langchain => Some("deepagents"),
            Self::Agno => None,
            other => Some(other.name()),
        }
    }

    /// The minor version of Python that it needs at least.
    fn python(self) -> u32 {
        match self {
            Self::PydanticAi | Self::Smolagents | Self::OpenaiAgents | Self::Agno => 10,
            Self::Langchain | Self::InspectAi => 11,
            Self::Harbor => 12,
        }
    }

    /// Where its tests are, a few lines of ours.
    fn tests(self) -> PathBuf {
        repo::root().join("tests/compat").join(self.name())
    }
}

/// Tests, what they need, and which of them may fail.
#[derive(Debug)]
pub struct Suite {
    /// Its name, as the list of its exceptions has it.
    name: &'static str,
    /// Where its tests are.
    tests: PathBuf,
    runner: Runner,
}

/// Which of its tests.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct Selection {
    /// Those in these files or folders; all of them when none are named.
    places: Vec<PathBuf>,
    /// Of those the ones whose whole name, as vitest has it, is this expression's.
    name: Option<String>,
}

impl Selection {
    /// Those in these files or folders; all of them when none are named.
    pub fn of(places: &[PathBuf]) -> Self {
        Self { places: places.to_vec(), name: None }
    }
}

/// What runs them.
#[derive(Debug)]
enum Runner {
    /// With these packages, in these folders when none are named.
    Pytest {
        packages: Packages,
        places: &'static [&'static str],
    },
    Vitest,
}

impl Suite {
    /// A suite of E2B's own, by what the folder holds; `sdk` in place of the version that its tests are of.
    pub fn recognise(tests: &Path, sdk: Option<&str>) -> Result<Self> {
        let tests = tests.canonicalize().with_context(|| format!("no folder {}", tests.display()))?;
        let checkout = repo::root().canonicalize().context("no checkout")?;
        ensure!(
            !tests.starts_with(&checkout),
            "{} is in the checkout, and somebody else's tests are never part of it\nhint: clone them beside it",
            tests.display()
        );
        let has = |name: &str| tests.join(name).exists();
        if has("pytest.ini") && has("pyproject.toml") {
            let project = read(&tests.join("pyproject.toml"))?;
            let project: toml::Table =
                toml::from_str(&project).context("pyproject.toml is not understood")?;
            let (package, version) = published(&project).context("pyproject.toml names no package")?;
            let version = sdk.unwrap_or(version);
            ensure!(is_version(version), "{version:?} is no version");
            let names = vec![format!("{package}=={version}")];
            let packages = Packages { names, described: None, python: OLDEST };
            let (name, places): (_, &[_]) = match package {
                "e2b" => ("e2b-python", &["tests/sync", "tests/async", "tests/shared"]),
                "e2b-code-interpreter" => ("e2b-interpreter-python", &["tests"]),
                other => bail!("{other} is no package of E2B's whose tests are known"),
            };
            return Ok(Self { name, tests, runner: Runner::Pytest { packages, places } });
        }
        ensure!(
            has("package.json"),
            "{} holds no tests that are known\nhint: name packages/python-sdk or packages/js-sdk of a copy of E2B's \
             repository, or python or js of its code interpreter's",
            tests.display()
        );
        ensure!(sdk.is_none(), "tests in JavaScript use the source beside them: no version can be chosen");
        let package: Value = serde_json::from_str(&read(&tests.join("package.json"))?)
            .context("package.json is not understood")?;
        let name = match package["name"].as_str() {
            Some("e2b") => "e2b-js",
            Some("@e2b/code-interpreter") => "e2b-interpreter-js",
            _ => bail!("{} is no package of E2B's whose tests are known", tests.display()),
        };
        Ok(Self { name, tests, runner: Runner::Vitest })
    }

    /// The suite of a framework, with what it brings for E2B's SDK.
    pub fn through_e2b(framework: Framework) -> Result<Self> {
        ensure!(
            framework != Framework::Harbor,
            "Harbor's environment for E2B builds a template through E2B's API, which the server does not do\nhint: --own runs \
             the trials through Rekindle's own SDK"
        );
        let names = requirements(&framework.tests().join("requirements.txt"))?;
        Ok(Self::of(framework, Packages { names, described: None, python: framework.python() }))
    }

    /// The suite of a framework, with what this checkout's SDK brings for it, installed as its users do.
    pub fn through_own_sdk(framework: Framework) -> Result<Self> {
        let extra = framework.extra().context(
            "agno has no place for sandboxes but its tools for E2B\nhint: leave out --own to test those",
        )?;
        let sdk = repo::root().join("sdk/python");
        let mut names = vec![format!("{}[{extra}]", text(&sdk)?)];
        let besides = framework.tests().join("own.txt");
        if besides.exists() {
            names.extend(requirements(&besides)?);
        }
        let described = Some(sdk.join("pyproject.toml"));
        Ok(Self::of(framework, Packages { names, described, python: framework.python() }))
    }

    fn of(framework: Framework, packages: Packages) -> Self {
        let runner = Runner::Pytest { packages, places: &["."] };
        Self { name: framework.name(), tests: framework.tests(), runner }
    }

    /// The list of tests that may fail.
    pub fn list(&self) -> PathBuf {
        Path::new("tests/compat").join(format!("{}.toml", self.name))
    }

    /// One test, by the name that a report has for it.
    pub fn alone(&self, test: &str) -> Result<Selection> {
        let selection = match &self.runner {
            Runner::Pytest { .. } => pytest::node(&self.tests, test)
                .map(|node| Selection { places: vec![node.into()], name: None }),
            Runner::Vitest => vitest::file_and_name(test)
                .map(|(file, name)| Selection { places: vec![file.into()], name: Some(name) }),
        };
        selection.with_context(|| format!("no file of the tests has {test}"))
    }

    /// What runs these tests and writes how they ended to `report`.
    pub fn command(
        &self,
        cache: &Cache,
        server: &Server,
        Selection { places: only, name }: &Selection,
        report: &Path,
    ) -> Result<Command> {
        match &self.runner {
            Runner::Pytest { packages, places } => {
                let all: Vec<PathBuf> = places.iter().map(PathBuf::from).collect();
                let places = if only.is_empty() { &all } else { only };
                let python = pytest::environment(cache, self.name, packages)?;
                Ok(pytest::command(server.among_its_names(&python), &self.tests, places, report))
            }
            Runner::Vitest => {
                let dir = vitest::environment(cache, self.name, &self.tests)?;
                let program = vitest::program(&dir);
                let mut command =
                    vitest::command(server.among_its_names(&program), &dir, only, text(report)?)?;
                command.args(name.iter().flat_map(|name| ["--testNamePattern", name]));
                Ok(command)
            }
        }
    }
}

/// The name and version of a package, wherever its description has them.
fn published(project: &toml::Table) -> Option<(&str, &str)> {
    let poetry = || project.get("tool")?.get("poetry");
    let described = project.get("project").or_else(poetry)?;
    Some((described.get("name")?.as_str()?, described.get("version")?.as_str()?))
}

fn is_version(version: &str) -> bool {
    !version.is_empty() && version.chars().all(|c| c.is_ascii_alphanumeric() || c == '.')
}

/// The packages that a file lists.
fn requirements(path: &Path) -> Result<Vec<String>> {
    let text = read(path)?;
    let lines = text.lines().filter(|line| !line.starts_with('#') && !line.is_empty());
    Ok(lines.map(str::to_owned).collect())
}

fn read(path: &Path) -> Result<String> {
    std::fs::read_to_string(path).with_context(|| format!("cannot read {}", path.display()))
}

#[cfg(test)]
mod tests {
    use clap::ValueEnum as _;

    use super::*;

    fn folder(files: &[(&str, &str)]) -> tempfile::TempDir {
        let dir = tempfile::tempdir().expect("a folder");
        for (name, content) in files {
            std::fs::write(dir.path().join(name), content).expect("a file");
        }
        dir
    }

    #[test]
    fn a_suite_is_told_by_its_package() {
        let python = "[project]\nname = \"e2b\"\nversion = \"2.45.1\"\n";
        let dir = folder(&[("pytest.ini", ""), ("pyproject.toml", python)]);
        let suite = Suite::recognise(dir.path(), None).expect("a suite");
        assert_eq!(suite.list(), Path::new("tests/compat/e2b-python.toml"));
        assert!(matches!(suite.runner, Runner::Pytest { packages, .. } if packages.names == ["e2b==2.45.1"]));
        let suite = Suite::recognise(dir.path(), Some("2.63.0")).expect("a suite");
        assert!(matches!(suite.runner, Runner::Pytest { packages, .. } if packages.names == ["e2b==2.63.0"]));
        assert!(Suite::recognise(dir.path(), Some("2 --index-url x")).is_err());

        let poetry = "[tool.poetry]\nname = \"e2b-code-interpreter\"\nversion = \"2.9.1\"\n";
        let dir = folder(&[("pytest.ini", ""), ("pyproject.toml", poetry)]);
        assert_eq!(Suite::recognise(dir.path(), None).expect("a suite").name, "e2b-interpreter-python");

        let dir = folder(&[("package.json", r#"{"name": "@e2b/code-interpreter"}"#)]);
        assert_eq!(Suite::recognise(dir.path(), None).expect("a suite").name, "e2b-interpreter-js");
        assert!(Suite::recognise(dir.path(), Some("2.45.1")).is_err(), "a version of what is not installed");
    }

    #[test]
    fn what_is_no_suite_is_told_with_a_hint() {
        let dir = folder(&[]);
        let error = Suite::recognise(dir.path(), None).expect_err("nothing there");
        assert!(error.to_string().contains("hint: name packages/python-sdk"), "{error}");
        let dir = folder(&[("package.json", r#"{"name": "left-pad"}"#)]);
        assert!(Suite::recognise(dir.path(), None).is_err());
        assert!(Suite::recognise(Path::new("/nowhere"), None).is_err());
    }

    #[test]
    fn tests_in_the_checkout_are_refused() {
        let error =
            Suite::recognise(&repo::root().join("sdk/typescript"), None).expect_err("in the checkout");
        assert!(error.to_string().contains("is in the checkout"), "{error}");
    }

    #[test]
    fn every_framework_has_its_tests_and_its_list() {
        for framework in Framework::value_variants() {
            let suite = Suite::through_own_sdk(*framework).or_else(|_| Suite::through_e2b(*framework));
            let suite = suite.expect("a suite");
            assert!(repo::root().join(suite.list()).exists(), "{framework:?}");
            assert!(suite.tests.join("pytest.ini").exists(), "{framework:?}");
        }
    }

    #[test]
    fn every_framework_with_an_adapter_is_installed_by_an_extra_of_the_sdk() {
        let project = read(&repo::root().join("sdk/python/pyproject.toml")).expect("the description");
        let project: toml::Table = toml::from_str(&project).expect("it is understood");
        for extra in Framework::value_variants().iter().filter_map(|framework| framework.extra()) {
            assert!(project["project"]["optional-dependencies"].get(extra).is_some(), "{extra}");
        }
    }

    #[test]
    fn what_can_be_reached_one_way_alone_is_told_with_a_hint() {
        for framework in Framework::value_variants() {
            if let Err(error) = Suite::through_e2b(*framework) {
                assert_eq!(*framework, Framework::Harbor, "{error}");
                assert!(error.to_string().contains("hint: --own"), "{error}");
            }
            if let Err(error) = Suite::through_own_sdk(*framework) {
                assert_eq!(*framework, Framework::Agno, "{error}");
                assert!(error.to_string().contains("hint: leave out --own"), "{error}");
            }
        }
    }
}
