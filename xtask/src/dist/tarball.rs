//! A tarball whose bytes depend on names, modes and contents alone.

use std::path::{Path, PathBuf};

use anyhow::Result;

use super::layout::output;
use super::tree::Tree;
use crate::job::bound_command;

/// Packs the tree as one folder `name` into `out`.
pub fn build(tree: &Tree, name: &str, epoch: &str, out: &Path) -> Result<PathBuf> {
    let tarball = out.join(format!("{name}.tar.zst"));
    output(
        bound_command("tar")
            .args(["--create", "--sort=name", "--format=gnu", "--owner=0", "--group=0", "--numeric-owner"])
            // One thread: the frames of several depend on how many there are.
            .args([&format!("--mtime=@{epoch}"), "--use-compress-program=zstd -T1 -3", "--directory"])
            .arg(tree.root())
            // The folder in the archive is called after the version, whatever it is called here.
            .args([&format!("--transform=flags=r;s,^[.],{name},"), "--file"])
            .arg(&tarball)
            .arg("."),
    )?;
    Ok(tarball)
}
