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
    dir: PathBuf,
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
        tokio::task::spawn_blocking(|| packages(requirements))
            .await
            .expect("ends")
            .map(|dir| Self { dir, own: None })
    }

    /// The same with a package of this checkout's besides.
    ///
    /// # Errors
    /// Says what this machine lacks, or why it cannot be installed.
    pub async fn fetch_and(requirements: &'static str, folder: PathBuf) -> Result<Self, String> {
        Self::fetch(requirements).await?.and(folder).await
    }

    /// The package of a folder besides, built and installed as its users do.
    async fn and(self, folder: PathBuf) -> Result<Self, String> {
        let own = tempfile::tempdir().map_err(|error| error.to_string())?;
        let installing = move || {
            let mut install = Command::new("python3");
            install.args(["-m", "pip", "install", "--quiet", "--no-deps", "--target"]).arg(own.path());
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
        let mut client = tokio::process::Command::new("python3");
        client.args(["-s", "-B"]).args(words).current_dir(cwd);
        printed(client.env("PYTHONPATH", self.path()).envs(env.iter().copied())).await
    }

    /// Where they are, as `PYTHONPATH` has it.
    ///
    /// # Panics
    /// When a folder has a colon in its name.
    #[must_use]
    pub fn path(&self) -> OsString {
        let own = self.own.as_ref().map(|own| own.path());
        std::env::join_paths(own.into_iter().chain([self.dir.as_path()])).expect("a path")
    }
}

fn packages(requirements: &str) -> Result<PathBuf, String> {
    let version = said("python3", Command::new("python3").arg("-VV"))?;
    kept("python", &format!("{version}{requirements}"), |aside| {
        let list = aside.join("requirements.txt");
        fs::write(&list, requirements).map_err(|error| error.to_string())?;
        let mut install = Command::new("python3");
        install
            .args(["-m", "pip", "install", "--quiet", "--only-binary", ":all:", "--requirement"])
            .arg(list);
        said("pip", install.arg("--target").arg(aside)).map(drop)
    })
}
