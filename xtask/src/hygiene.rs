//! Proof that nothing of the building machine got into an image.
//!
//! Called on the finished tree, right before it is packed. It only reads.

use std::fs;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result, bail};

use crate::hint::Hint;

/// Paths that must not exist, or hold no file but those of an overlay, in an image.
const MUST_BE_EMPTY: &[&str] = &[
    "etc/machine-id",
    "var/lib/dbus/machine-id",
    "var/lib/apt/lists",
    "var/cache/apt",
    "var/log",
    "etc/apt",
    "etc/pip.conf",
    "etc/npmrc",
    "etc/ssh",
    "etc/ssl/private",
    "root/.ssh",
    "root/.cache",
    "root/.config",
    "root/.netrc",
    "root/.npmrc",
    "root/.pypirc",
    "root/.gitconfig",
    "root/.aws",
    "root/.bash_history",
    "rekindle-build",
    "run",
    "tmp",
    "dev",
    "proc",
    "sys",
];

/// Where configuration could have been copied from the host.
const SEARCHED: &[&str] = &["etc", "root", "home", "var", "usr/local/etc"];

/// Files bigger than this are data, not configuration.
const LARGEST_CONFIG: u64 = 256 * 1024;

/// Checks a tree against this machine's own name and secrets. What comes from an overlay is no state of any machine.
pub fn check(tree: &Path, overlays: &[PathBuf]) -> Result<()> {
    let mut words = secrets(std::env::vars());
    if let Ok(name) = fs::read_to_string("/proc/sys/kernel/hostname") {
        words.extend(distinctive_hostname(name.trim()));
    }
    check_for(tree, overlays, &words)
}

fn check_for(tree: &Path, overlays: &[PathBuf], words: &[String]) -> Result<()> {
    let mut found = Vec::new();
    for path in MUST_BE_EMPTY {
        if !is_empty(tree, Path::new(path), overlays)? {
            found.push(format!("/{path} is not empty"));
        }
    }
    for folder in SEARCHED {
        let start = tree.join(folder);
        if start.is_dir() {
            search(tree, &start, words, &mut found)?;
        }
    }
    if found.is_empty() {
        return Ok(());
    }
    Err::<(), _>(anyhow::anyhow!(
        "the image would carry state of the building machine:\n  {}",
        found.join("\n  ")
    ))
    .hint("add the path to what rootfs/customize.sh removes, or take it out of the overlay")
}

/// Values of environment variables whose name says that they are secret.
fn secrets(variables: impl Iterator<Item = (String, String)>) -> Vec<String> {
    const NAMES: [&str; 6] = ["TOKEN", "SECRET", "PASSWORD", "PASSWD", "API_KEY", "CREDENTIAL"];
    variables
        .filter(|(name, value)| {
            value.len() >= 12 && NAMES.iter().any(|word| name.to_uppercase().contains(word))
        })
        .map(|(_, value)| value)
        .collect()
}

/// The host's name, unless it is a word any image may contain.
fn distinctive_hostname(name: &str) -> Option<String> {
    let common = ["localhost", "debian", "rekindle", "buildhost", "builder"].contains(&name);
    (name.len() >= 8 && !common).then(|| name.to_owned())
}

/// Whether there is nothing at a path of the tree but folders, empty files and what overlays have there.
fn is_empty(tree: &Path, path: &Path, overlays: &[PathBuf]) -> Result<bool> {
    let place = tree.join(path);
    let Ok(meta) = fs::symlink_metadata(&place) else { return Ok(true) };
    if !meta.is_dir() {
        let ours = overlays.iter().any(|overlay| overlay.join(path).exists());
        return Ok(ours || meta.is_file() && meta.len() == 0);
    }
    for entry in fs::read_dir(&place).with_context(|| format!("cannot read {}", place.display()))? {
        if !is_empty(tree, &path.join(entry?.file_name()), overlays)? {
            return Ok(false);
        }
    }
    Ok(true)
}

fn search(tree: &Path, dir: &Path, words: &[String], found: &mut Vec<String>) -> Result<()> {
    for entry in fs::read_dir(dir).with_context(|| format!("cannot read {}", dir.display()))? {
        let path = entry?.path();
        let meta = fs::symlink_metadata(&path)?;
        if meta.is_dir() {
            search(tree, &path, words, found)?;
        } else if meta.is_file() && meta.len() <= LARGEST_CONFIG {
            let bytes = fs::read(&path).with_context(|| format!("cannot read {}", path.display()))?;
            let shown = || format!("/{}", path.strip_prefix(tree).unwrap_or(&path).display());
            if contains(&bytes, b"PRIVATE KEY-----") {
                found.push(format!("{} holds a private key", shown()));
            }
            for word in words {
                if contains(&bytes, word.as_bytes()) {
                    found
                        .push(format!("{} holds a value of this machine's environment or its name", shown()));
                }
            }
        }
    }
    Ok(())
}

fn contains(haystack: &[u8], needle: &[u8]) -> bool {
    haystack.windows(needle.len()).any(|window| window == needle)
}

/// Refuses a work folder that something is still mounted under.
pub fn no_mounts_under(dir: &Path) -> Result<()> {
    let mounts = fs::read_to_string("/proc/self/mounts").unwrap_or_default();
    for target in mounts.lines().filter_map(|line| line.split(' ').nth(1)).map(PathBuf::from) {
        if target.starts_with(dir) {
            bail!("{} is still mounted", target.display());
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn tree(files: &[(&str, &str)]) -> tempfile::TempDir {
        let dir = tempfile::tempdir().unwrap();
        for (path, text) in files {
            let path = dir.path().join(path);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(path, text).unwrap();
        }
        dir
    }

    fn complaint(files: &[(&str, &str)]) -> String {
        check_for(tree(files).path(), &[], &["s3cr3t-value-1".into()]).unwrap_err().to_string()
    }

    #[test]
    fn a_clean_tree_passes() {
        let dir =
            tree(&[("etc/hostname", "rekindle\n"), ("etc/machine-id", ""), ("usr/bin/x", "s3cr3t-value-1")]);
        check_for(dir.path(), &[], &["s3cr3t-value-1".into()]).unwrap();
    }

    #[test]
    fn what_an_overlay_brings_is_no_state_and_what_lies_beside_it_is() {
        let overlay = tree(&[("etc/apt/sources.list", "ours")]);
        let overlays = [overlay.path().to_path_buf()];
        let clean = tree(&[("etc/apt/sources.list", "ours")]);
        fs::create_dir_all(clean.path().join("var/cache/apt/archives/partial")).unwrap();
        check_for(clean.path(), &overlays, &[]).unwrap();
        let other = tree(&[("etc/apt/sources.list", "ours"), ("etc/apt/auth.conf", "password")]);
        let complaint = check_for(other.path(), &overlays, &[]).unwrap_err().to_string();
        assert!(complaint.contains("/etc/apt is not empty"), "{complaint}");
    }

    #[test]
    fn identities_logs_and_keys_are_found() {
        assert!(complaint(&[("etc/machine-id", "0123")]).contains("/etc/machine-id"));
        assert!(complaint(&[("var/log/dpkg.log", "x")]).contains("/var/log"));
        assert!(complaint(&[("etc/ssh/ssh_host_key", "x")]).contains("/etc/ssh"));
        assert!(complaint(&[("etc/app/key.pem", "-----BEGIN PRIVATE KEY-----")]).contains("private key"));
    }

    #[test]
    fn a_secret_of_the_environment_is_found() {
        assert!(complaint(&[("etc/app.conf", "token = s3cr3t-value-1")]).contains("/etc/app.conf"));
    }

    #[test]
    fn only_variables_that_sound_secret_are_searched_for() {
        let variables =
            [("MY_TOKEN", "abcdefghijklmnop"), ("PATH", "/usr/bin:/usr/sbin"), ("DB_PASSWORD", "short")];
        let found = secrets(variables.iter().map(|(name, value)| ((*name).into(), (*value).into())));
        assert_eq!(found, ["abcdefghijklmnop"]);
    }
}
