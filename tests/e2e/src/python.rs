//! Programs in Python on this machine, with packages from the package index.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};
use std::sync::Arc;

use rekindle::config::Dirs;
use sha2::{Digest as _, Sha256};
use tempfile::TempDir;

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

    /// The same with the package of a folder besides, built and installed as its users do.
    ///
    /// # Errors
    /// Says why it cannot be installed.
    ///
    /// # Panics
    /// When it is stopped half-way.
    pub async fn and(self, folder: PathBuf) -> Result<Self, String> {
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
        client.args(["-s", "-B"]).args(words).current_dir(cwd).kill_on_drop(true);
        let own = self.own.as_ref().map(|own| own.path());
        let path = std::env::join_paths(own.into_iter().chain([self.dir.as_path()])).expect("a path");
        client.env("PYTHONPATH", path).envs(env.iter().copied());
        let ended = client.output().await.expect("started");
        let (stdout, stderr) =
            (String::from_utf8_lossy(&ended.stdout), String::from_utf8_lossy(&ended.stderr));
        eprintln!("{stdout}");
        assert!(ended.status.success(), "{words:?}: {}: {stdout}{stderr}", ended.status);
        stdout.into_owned()
    }
}

fn packages(requirements: &str) -> Result<PathBuf, String> {
    let version = said("python3", Command::new("python3").arg("-VV"))?;
    let key = Sha256::digest(format!("{version}{requirements}"));
    let key: String = key[..16].iter().map(|byte| format!("{byte:02x}")).collect();
    let cache = Dirs::find().map_err(|error| error.to_string())?.cache.join("python");
    let dir = cache.join(key);
    if dir.exists() {
        return Ok(dir);
    }
    let failed = |error: std::io::Error| format!("{}: {error}", cache.display());
    fs::create_dir_all(&cache).map_err(failed)?;
    // Made aside and renamed: half of them are never used.
    let aside = tempfile::Builder::new().prefix(".new-").tempdir_in(&cache).map_err(failed)?;
    let list = aside.path().join("requirements.txt");
    fs::write(&list, requirements).map_err(failed)?;
    let mut install = Command::new("python3");
    install.args(["-m", "pip", "install", "--quiet", "--only-binary", ":all:", "--requirement"]).arg(list);
    said("pip", install.arg("--target").arg(aside.path()))?;
    match fs::rename(aside.path(), &dir) {
        // Another was quicker.
        Err(_) if dir.exists() => Ok(dir),
        renamed => renamed.map(|()| dir).map_err(failed),
    }
}

/// What a command printed, or what is wrong with it.
fn said(what: &str, command: &mut Command) -> Result<String, String> {
    let Output { status, stdout, stderr } = command.output().map_err(|error| format!("{what}: {error}"))?;
    if status.success() {
        return Ok(String::from_utf8_lossy(&stdout).into_owned());
    }
    let stderr = String::from_utf8_lossy(&stderr);
    Err(format!("{what}: {}", stderr.trim().lines().last().unwrap_or("failed without a word")))
}
