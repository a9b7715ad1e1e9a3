//! Programs in JavaScript on this machine, with packages from the package index.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use crate::packages::{kept, printed, said};

/// Packages that a program may import.
#[derive(Debug, Clone)]
pub struct Modules(PathBuf);

impl Modules {
    /// These packages, fetched once for each list and kept in the cache. Nothing of them is compiled here, so every Node
    /// runs them.
    ///
    /// # Errors
    /// Says what this machine lacks.
    ///
    /// # Panics
    /// When it is stopped half-way.
    pub async fn fetch(packages: &'static [&'static str]) -> Result<Self, String> {
        let fetching = move || {
            said("node", Command::new("node").arg("--version"))?;
            kept("node", &packages.join("\n"), |aside| {
                let mut install = Command::new("npm");
                install.args(["install", "--no-audit", "--no-fund", "--ignore-scripts", "--prefix"]);
                said("npm", install.arg(aside).args(packages)).map(drop)
            })
        };
        tokio::task::spawn_blocking(fetching).await.expect("ends").map(Self)
    }

    /// The folder they are in.
    #[must_use]
    pub fn dir(&self) -> &Path {
        &self.0
    }

    /// A file of a package.
    #[must_use]
    pub fn file(&self, path: &str) -> PathBuf {
        self.0.join("node_modules").join(path)
    }

    /// What a module printed that is put into `dir`, beside the packages.
    ///
    /// # Panics
    /// When it does not end well.
    pub async fn printed(&self, dir: &Path, env: &[(&str, &str)], source: &str) -> String {
        let link = dir.join("node_modules");
        if !link.exists() {
            std::os::unix::fs::symlink(self.0.join("node_modules"), link).expect("a link");
        }
        let file = dir.join("client.mjs");
        fs::write(&file, source).expect("written");
        printed(tokio::process::Command::new("node").arg(file).current_dir(dir).envs(env.iter().copied()))
            .await
    }
}
