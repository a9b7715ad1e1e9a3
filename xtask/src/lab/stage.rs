//! Puts what runs in the lab into the directory it shares: programs, the monitor, the kernel, an image, and what tests
//! would fetch from a network.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use anyhow::{Context, Result, ensure};

use crate::cache::{Cache, MANIFEST};
use crate::hint::Hint;
use crate::job::bound_command;
use crate::rootfs;

/// What tests would fetch, packed: reading thousands of small files from the share takes the lab minutes.
pub const PROVISIONS: &str = "provisions.tar";

/// A directory that is being filled.
pub struct Stage {
    dir: PathBuf,
}

impl Stage {
    /// Starts with nothing.
    pub fn empty(dir: PathBuf) -> Self {
        let _ = fs::remove_dir_all(&dir);
        Self { dir }
    }

    /// Copies one file in.
    pub fn put(&self, source: &Path, target: impl AsRef<Path>) -> Result<()> {
        let target = self.dir.join(target);
        if let Some(dir) = target.parent() {
            fs::create_dir_all(dir)?;
        }
        fs::copy(source, &target)
            .with_context(|| format!("cannot copy {}", source.display()))
            .hint("run `cargo xtask build`")?;
        Ok(())
    }

    /// Firecracker with its jailer. Debug information of one that somebody built is taken out: releases have
    /// none, and the jailer copies the program at every start. Without `strip` it stays as it is.
    pub fn monitor(&self, firecracker: &Path) -> Result<()> {
        self.put(firecracker, "bin/firecracker")?;
        self.put(&firecracker.with_file_name("jailer"), "bin/jailer")?;
        let program = self.dir.join("bin/firecracker");
        let _ = Command::new("strip").arg(program).stderr(Stdio::null()).status();
        Ok(())
    }

    /// The same for an image that not everybody builds: tests that miss it say so.
    pub fn guest_if_built(&self, cache: &Cache, image: &str) -> Result<()> {
        let built = cache.root().join("images").join(image).join("current").join(rootfs::IMAGE);
        if built.is_file() { self.guest(cache, image) } else { Ok(()) }
    }

    /// The kernel and an image, as a cache of their own.
    pub fn guest(&self, cache: &Cache, image: &str) -> Result<()> {
        let image = format!("images/{image}/current");
        for (dir, file) in [("kernel/current", "vmlinux"), (image.as_str(), rootfs::IMAGE)] {
            for name in [file, MANIFEST] {
                let path = Path::new(dir).join(name);
                self.put(&cache.root().join(&path), Path::new("cache").join(&path))?;
            }
        }
        Ok(())
    }

    /// What `program` fetches into the cache, or finds there, and lists. Where something cannot be had, it says why, and
    /// so will the tests that miss it.
    pub fn provisions(&self, cache: &Cache, program: &Path) -> Result<()> {
        let listed = bound_command(program)
            .env("REKINDLE_CACHE", cache.root())
            .stderr(Stdio::inherit())
            .output()
            .context("what tests need from a network cannot be fetched")?;
        ensure!(
            listed.status.success(),
            "what tests need from a network cannot be fetched: {}",
            listed.status
        );
        let listed = String::from_utf8_lossy(&listed.stdout).into_owned();
        let folders = listed.lines().map(|dir| Path::new(dir).strip_prefix(cache.root()));
        let folders = folders.collect::<Result<Vec<_>, _>>().context("a folder is not in the cache")?;
        fs::create_dir_all(&self.dir)?;
        let mut tar = Command::new("tar");
        tar.arg("-cf").arg(self.dir.join(PROVISIONS)).arg("-C").arg(cache.root());
        // The empty list is for when there is nothing.
        let packed = tar.args(["-T", "/dev/null"]).args(folders).status();
        ensure!(
            packed.is_ok_and(|status| status.success()),
            "what tests need from a network cannot be packed"
        );
        Ok(())
    }
}
