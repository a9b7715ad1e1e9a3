//! Programs in Python on this machine, with packages from the package index.

use std::ffi::OsString;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::Arc;

use tempfile::TempDir;

use crate::packages::{kept, printed, said};

/// Packages that a program may import.
#[derive(Debug, Clone)]
pub struct Packages {
    /// What runs it.
    python: PathBuf,
    /// Where they are, unless they are the environment's own.
    dir: Option<PathBuf>,
    /// A package of this checkout's, installed besides.
    own: Option<Arc<TempDir>>,
}

impl Packages {
    /// The packages of a list of requirements, fetched once for each list and each Python and kept in the cache.
    ///
    /// # Errors
    /// Says what this machine lacks.
    ///
    /// # Panics
    /// When it is stopped half-way.
    pub async fn fetch(requirements: &'static str) -> Result<Self, String> {
        tokio::task::spawn_blocking(|| packages(requirements)).await.expect("ends").map(|dir| Self {
            python: "python3".into(),
            dir: Some(dir),
            own: None,
        })
    }

    /// Packages of which nothing is compiled, with everything they import: the same for every Python, and fetched once
    /// for each list.
    ///
    /// # Errors
    /// Says what this machine lacks.
    ///
    /// # Panics
    /// When it is stopped half-way.
    pub async fn portable(requirements: &'static str) -> Result<Self, String> {
        let fetching = || {
            said("python3", Command::new("python3").arg("-VV"))?;
            let any = ["--no-deps", "--platform", "any", "--implementation", "py", "--abi", "none"];
            kept("python", requirements, |aside| installed(requirements, &any, aside))
        };
        let dir = tokio::task::spawn_blocking(fetching).await.expect("ends")?;
        Ok(Self { python: "python3".into(), dir: Some(dir), own: None })
    }

    /// The same as [`Packages::fetch`] with a package of this checkout's besides.
    ///
    /// # Errors
    /// Says what this machine lacks, or why it cannot be installed.
    pub async fn fetch_and(requirements: &'static str, folder: PathBuf) -> Result<Self, String> {
        Self::fetch(requirements).await?.and(folder).await
    }

    /// The packages that an extra of this checkout's package in `folder` brings, as pip resolves them under these
    /// requirements, in an environment of their own; with the package as it is now.
    ///
    /// # Errors
    /// Says what this machine lacks.
    ///
    /// # Panics
    /// When the extra cannot be installed though the package index is there.
    pub async fn extra(
        python: PathBuf,
        folder: PathBuf,
        extra: &'static str,
        requirements: String,
    ) -> Result<Self, String> {
        let from = folder.clone();
        let making =
            move || environment(&python, &format!("{}[{extra}]", from.display()), &from, &requirements);
        let dir = tokio::task::spawn_blocking(making).await.expect("it can be installed")?;
        Self { python: dir.join("bin/python"), dir: None, own: None }.and(folder).await
    }

    /// A new environment in `dir` with this checkout's package in `folder` and what it needs, as its users make it.
    ///
    /// # Errors
    /// Says what this machine lacks.
    ///
    /// # Panics
    /// When it cannot be installed though the package index is there.
    pub async fn fresh(dir: PathBuf, folder: PathBuf) -> Result<Self, String> {
        let making = move || {
            venv(Path::new("python3"), &dir)?;
            let python = dir.join("bin/python");
            said("pip", pip(&python).arg(folder))
                .unwrap_or_else(|why| panic!("it cannot be installed: {why}"));
            Ok(Self { python, dir: None, own: None })
        };
        tokio::task::spawn_blocking(making).await.expect("it can be installed")
    }

    /// The package of a folder besides, built and installed as its users do.
    async fn and(self, folder: PathBuf) -> Result<Self, String> {
        let own = tempfile::tempdir().map_err(|error| error.to_string())?;
        let python = self.python.clone();
        let installing = move || {
            let mut install = pip(&python);
            install.args(["--no-deps", "--target"]).arg(own.path());
            said("pip", install.arg(folder)).map(|_| own)
        };
        let own = tokio::task::spawn_blocking(installing).await.expect("ends")?;
        Ok(Self { own: Some(Arc::new(own)), ..self })
    }

    /// What a program printed. Nothing of the user's own is used, and nothing is written into the cache.
    ///
    /// # Panics
    /// When it does not end well.
    pub async fn printed(&self, cwd: &Path, env: &[(&str, &str)], words: &[&str]) -> String {
        printed(self.command(cwd, env).args(words)).await
    }

    /// A Python with these packages, whose words follow. Nothing of the user's own is used, and nothing is written into
    /// the cache.
    #[must_use]
    pub fn command(&self, cwd: &Path, env: &[(&str, &str)]) -> tokio::process::Command {
        let mut client = tokio::process::Command::new(&self.python);
        client.args(["-s", "-B"]).current_dir(cwd).kill_on_drop(true);
        client.env("PYTHONPATH", self.path()).envs(env.iter().copied());
        client
    }

    /// Where they are, as `PYTHONPATH` has it.
    ///
    /// # Panics
    /// When a folder has a colon in its name.
    #[must_use]
    pub fn path(&self) -> OsString {
        let own = self.own.as_ref().map(|own| own.path());
        std::env::join_paths(own.into_iter().chain(self.dir.as_deref())).expect("a path")
    }
}

/// A Python of this version or a newer one, on the `PATH` or among pyenv's.
///
/// # Errors
/// When there is none.
pub fn at_least(minor: u32) -> Result<PathBuf, String> {
    let newer = (minor..minor + 8).rev().map(|minor| PathBuf::from(format!("python3.{minor}")));
    let pyenv = std::env::var_os("PYENV_ROOT").map(PathBuf::from).into_iter();
    let versions = pyenv.filter_map(|root| fs::read_dir(root.join("versions")).ok()).flatten().flatten();
    let pyenvs = versions.map(|version| version.path().join("bin/python3"));
    let test = format!("import sys, venv; sys.exit(sys.version_info < (3, {minor}))");
    std::iter::once(PathBuf::from("python3"))
        .chain(newer)
        .chain(pyenvs)
        .find(|python| said("python", Command::new(python).args(["-c", &test])).is_ok())
        .ok_or_else(|| format!("there is no Python 3.{minor} or newer"))
}

/// An empty environment, where there is an index to fill it from.
fn venv(python: &Path, dir: &Path) -> Result<(), String> {
    said("venv", Command::new(python).args(["-m", "venv"]).arg(dir))?;
    let probe = ["-m", "pip", "download", "--quiet", "--no-deps", "--dest"];
    let python = dir.join("bin/python");
    said("pip", Command::new(python).args(probe).arg(dir.join("probe")).arg("httpx")).map(drop)
}

fn pip(python: &Path) -> Command {
    let mut install = Command::new(python);
    install.args(["-m", "pip", "install", "--quiet"]);
    install
}

fn environment(python: &Path, what: &str, folder: &Path, requirements: &str) -> Result<PathBuf, String> {
    let version = said("python3", Command::new(python).arg("-VV"))?;
    let about = fs::read_to_string(folder.join("pyproject.toml")).map_err(|error| error.to_string())?;
    let extra = what.rsplit('[').next().unwrap_or_default();
    kept("venv", &format!("{version}{extra}{requirements}{about}"), |aside| {
        venv(python, aside)?;
        let list = aside.join("requirements.txt");
        fs::write(&list, requirements).map_err(|error| error.to_string())?;
        let python = aside.join("bin/python");
        let failed = |why| panic!("{what} cannot be installed: {why}");
        said("pip", pip(&python).arg("--requirement").arg(list).arg(what)).unwrap_or_else(failed);
        said("pip", Command::new(&python).args(["-m", "pip", "check"])).unwrap_or_else(failed);
        Ok(())
    })
}

fn packages(requirements: &str) -> Result<PathBuf, String> {
    let version = said("python3", Command::new("python3").arg("-VV"))?;
    kept("python", &format!("{version}{requirements}"), |aside| installed(requirements, &[], aside))
}

fn installed(requirements: &str, words: &[&str], dir: &Path) -> Result<(), String> {
    let list = dir.join("requirements.txt");
    fs::write(&list, requirements).map_err(|error| error.to_string())?;
    let mut install = Command::new("python3");
    install.args(["-m", "pip", "install", "--quiet", "--only-binary", ":all:"]).args(words);
    said("pip", install.arg("--requirement").arg(list).arg("--target").arg(dir)).map(drop)
}
