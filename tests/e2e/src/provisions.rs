//! Other people's servers and packages for the tests of the network: pypiserver, verdaccio and setuptools, fetched from
//! their indexes once and kept in the cache.
//!
//! None of it depends on the machine, so one without a network, as the lab is, may have it from another's cache: the
//! program `rekindle-provisions` fetches and lists it.

use std::path::PathBuf;
use std::process::Command;

use crate::node::Modules;
use crate::packages::{kept, said};
use crate::python::Packages;

/// An index of Python packages, and what it imports; the last of them only where Python is older than 3.12.
const INDEX: &str = "pypiserver==2.3.2\npackaging==25.0\nimportlib-resources==6.5.2\n";
/// A registry of npm's: of a version whose packages all have numbers, which every mirror has.
const REGISTRY: &[&str] = &["verdaccio@5.20.1"];
/// What builds a repository's package, as published.
const BUILD_BACKEND: &str = "setuptools==80.9.0";

/// Pypiserver.
///
/// # Errors
/// Says what this machine lacks.
///
/// # Panics
/// When it is stopped half-way.
pub async fn index() -> Result<Packages, String> {
    Packages::portable(INDEX).await
}

/// Verdaccio.
///
/// # Errors
/// Says what this machine lacks.
///
/// # Panics
/// When it is stopped half-way.
pub async fn registry() -> Result<Modules, String> {
    Modules::fetch(REGISTRY).await
}

/// A folder with the wheel of setuptools and nothing else.
///
/// # Errors
/// Says what this machine lacks.
pub fn build_backend() -> Result<PathBuf, String> {
    kept("wheels", BUILD_BACKEND, |dir| {
        let mut pip = Command::new("python3");
        pip.args(["-m", "pip", "download", "--quiet", "--no-deps", "--only-binary=:all:", "--dest"]);
        said("pip", pip.arg(dir).arg(BUILD_BACKEND)).map(drop)
    })
}

/// The folders of the cache that all of it is in; in place of one that cannot be had, why.
///
/// # Panics
/// When it is stopped half-way.
pub async fn all() -> Vec<Result<PathBuf, String>> {
    let index = index().await.map(|packages| packages.path().into());
    let registry = registry().await.map(|modules| modules.dir().to_owned());
    vec![index, registry, build_backend()]
}
