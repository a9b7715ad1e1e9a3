//! A copy of the checkout in which bugs are planted, with a target directory of its own. It is kept from one run to the
//! next, and only what differs is copied, so that little is built again.

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result, bail};

use crate::hash::Key;

/// The copy.
pub struct Scratch {
    checkout: PathBuf,
    target: PathBuf,
    sum: String,
}

impl Scratch {
    /// Copies the files that git knows, as they are now.
    pub fn copy(root: &Path, dir: &Path) -> Result<Self> {
        let mut scratch =
            Self { checkout: dir.join("checkout"), target: dir.join("target"), sum: String::new() };
        let (files, mut key) = (tracked(root)?, Key::default());
        for file in &files {
            let (from, to) = (root.join(file), scratch.checkout.join(file));
            let data = fs::read(&from).with_context(|| format!("cannot read {}", from.display()))?;
            // What people read is no part of any build.
            if file.extension().is_none_or(|extension| extension != "md") {
                key = key.add(&file.to_string_lossy(), &data);
            }
            if fs::read(&to).is_ok_and(|there| there == data) {
                continue;
            }
            if let Some(parent) = to.parent() {
                fs::create_dir_all(parent)?;
            }
            // Not `fs::write`: permissions are part of some tests.
            fs::copy(&from, &to).with_context(|| format!("cannot write {}", to.display()))?;
        }
        remove_others(&scratch.checkout, &scratch.checkout, &files)?;
        scratch.sum = key.finish();
        Ok(scratch)
    }

    /// A cargo command in the copy, for so many seconds.
    pub fn cargo(&self, longest: &str) -> Command {
        // Ends a test that hangs, with everything it has started.
        let mut command = Command::new("timeout");
        command.args(["--kill-after=10", longest]);
        command.arg(std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into()));
        command.current_dir(&self.checkout).env("CARGO_TARGET_DIR", &self.target);
        for inherited in ["REKINDLE_AGENT", "REKINDLE_REPO", "REKINDLE_ENGINE_FILE"] {
            command.env_remove(inherited);
        }
        command
    }

    /// The sum of what was copied, without documents.
    pub fn sum(&self) -> &str {
        &self.sum
    }

    /// A file of the copy.
    pub fn file(&self, path: &str) -> PathBuf {
        self.checkout.join(path)
    }
}

fn tracked(root: &Path) -> Result<BTreeSet<PathBuf>> {
    let listed = Command::new("git").current_dir(root).args(["ls-files", "-z"]).output();
    let listed = listed.context("cannot start git")?;
    if !listed.status.success() {
        bail!("git does not list the files of {}", root.display());
    }
    let names = String::from_utf8(listed.stdout).context("a file whose name is no text")?;
    let names = names.split('\0').filter(|name| !name.is_empty()).map(PathBuf::from);
    // One that was deleted and is still known.
    Ok(names.filter(|name| root.join(name).is_file()).collect())
}

/// Removes what an earlier checkout had.
fn remove_others(base: &Path, dir: &Path, files: &BTreeSet<PathBuf>) -> Result<()> {
    for entry in fs::read_dir(dir).with_context(|| format!("cannot read {}", dir.display()))? {
        let path = entry?.path();
        if path.is_dir() {
            remove_others(base, &path, files)?;
            // Refused while there is something in it.
            let _ = fs::remove_dir(&path);
        } else if path.strip_prefix(base).is_ok_and(|name| !files.contains(name))
            && !path.ends_with("Cargo.lock")
        {
            fs::remove_file(&path)?;
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use std::time::SystemTime;

    use super::*;

    fn git(dir: &Path, args: &[&str]) {
        assert!(Command::new("git").current_dir(dir).args(args).status().unwrap().success());
    }

    #[test]
    fn the_copy_is_what_git_knows_and_what_is_the_same_stays_as_it_was() {
        let dir = tempfile::tempdir().unwrap();
        let (root, place) = (dir.path().join("root"), dir.path().join("place"));
        fs::create_dir_all(root.join("a")).unwrap();
        git(&root, &["init", "--quiet"]);
        for name in ["a/one", "a/two", "a/unknown"] {
            fs::write(root.join(name), name).unwrap();
        }
        git(&root, &["add", "a/one", "a/two"]);
        let copy = Scratch::copy(&root, &place).unwrap();
        assert!(copy.file("a/one").exists() && !copy.file("a/unknown").exists());
        let written =
            |name: &str| -> SystemTime { fs::metadata(copy.file(name)).unwrap().modified().unwrap() };
        let before = written("a/one");
        fs::write(copy.file("a/two"), "planted").unwrap();
        fs::write(copy.file("a/left"), "from an earlier one").unwrap();
        Scratch::copy(&root, &place).unwrap();
        assert_eq!(fs::read_to_string(copy.file("a/two")).unwrap(), "a/two");
        assert_eq!(written("a/one"), before, "it need not be built again");
        assert!(!copy.file("a/left").exists());
    }
}
