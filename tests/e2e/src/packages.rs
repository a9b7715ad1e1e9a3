//! Packages of other people's, fetched from their index once and kept in the cache.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

use rekindle::config::Dirs;
use sha2::{Digest as _, Sha256};

/// A folder of the cache for what `content` names, filled by `install` where there is none yet.
///
/// # Errors
/// Says what this machine lacks.
pub fn kept(
    kind: &str,
    content: &str,
    install: impl FnOnce(&Path) -> Result<(), String>,
) -> Result<PathBuf, String> {
    let key: String = Sha256::digest(content)[..16].iter().map(|byte| format!("{byte:02x}")).collect();
    let cache = Dirs::find().map_err(|error| error.to_string())?.cache.join(kind);
    let dir = cache.join(key);
    if dir.exists() {
        return Ok(dir);
    }
    let failed = |error: std::io::Error| format!("{}: {error}", cache.display());
    fs::create_dir_all(&cache).map_err(failed)?;
    // Made aside and renamed: half of them are never used.
    let aside = tempfile::Builder::new().prefix(".new-").tempdir_in(&cache).map_err(failed)?;
    install(aside.path())?;
    match fs::rename(aside.path(), &dir) {
        // Another was quicker.
        Err(_) if dir.exists() => Ok(dir),
        renamed => renamed.map(|()| dir).map_err(failed),
    }
}

/// What a command printed.
///
/// # Errors
/// Says what is wrong with it.
pub fn said(what: &str, command: &mut Command) -> Result<String, String> {
    let Output { status, stdout, stderr } = command.output().map_err(|error| format!("{what}: {error}"))?;
    if status.success() {
        return Ok(String::from_utf8_lossy(&stdout).into_owned());
    }
    let stderr = String::from_utf8_lossy(&stderr);
    Err(format!("{what}: {}", stderr.trim().lines().last().unwrap_or("failed without a word")))
}

/// What a client printed, which ends well.
///
/// # Panics
/// When it does not.
pub async fn printed(client: &mut tokio::process::Command) -> String {
    let ended = client.kill_on_drop(true).output().await.expect("started");
    let (stdout, stderr) = (String::from_utf8_lossy(&ended.stdout), String::from_utf8_lossy(&ended.stderr));
    eprintln!("{stdout}");
    assert!(ended.status.success(), "{client:?}: {}: {stdout}{stderr}", ended.status);
    stdout.into_owned()
}
