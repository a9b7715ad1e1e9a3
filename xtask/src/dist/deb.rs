//! One Debian package from a tree, by dpkg-deb: the same bytes from the same tree, whenever and whoever builds it.

use std::fs;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result};

use super::layout::output;
use super::tree::{Mode, Tree};
use crate::job::bound_command;
use crate::repo;

/// The scripts dpkg runs, those of them that a package has.
const SCRIPTS: [&str; 4] = ["preinst", "postinst", "prerm", "postrm"];
/// dpkg's unit of sizes.
const KIB: u64 = 1024;

/// What a package says about itself.
pub struct About<'a> {
    /// Its name, and that of its folder in packaging/deb.
    pub name: &'a str,
    /// Its version.
    pub version: &'a str,
    /// The oldest C library it runs with.
    pub libc: &'a str,
    /// Name and address of who makes it.
    pub maintainer: &'a str,
    /// When it was made: seconds since 1970.
    pub epoch: &'a str,
}

/// Adds the control files to the tree and packs it into `out`.
pub fn build(tree: &Tree, about: &About<'_>, out: &Path) -> Result<PathBuf> {
    let About { name, version, libc, maintainer, epoch } = *about;
    let packaging = repo::root().join("packaging/deb").join(name);
    let control = fs::read_to_string(packaging.join("control"))
        .with_context(|| format!("cannot read the control file of {name}"))?;
    // The tree may have been packed before, as another version.
    let _ = fs::remove_dir_all(tree.root().join("DEBIAN"));
    let size = installed_size(tree)?.to_string();
    let facts = [("VERSION", version), ("LIBC", libc), ("SIZE", &size), ("MAINTAINER", maintainer)];
    let control = facts.iter().fold(control, |text, (fact, value)| text.replace(&format!("@{fact}@"), value));
    let (sums, conffiles) = lists(tree)?;
    tree.write("DEBIAN/control", Mode::Data, control)?;
    tree.write("DEBIAN/md5sums", Mode::Data, sums)?;
    if !conffiles.is_empty() {
        tree.write("DEBIAN/conffiles", Mode::Data, conffiles)?;
    }
    for script in SCRIPTS.iter().filter(|script| packaging.join(script).is_file()) {
        tree.copy(&format!("DEBIAN/{script}"), Mode::Program, &packaging.join(script))?;
    }
    let deb = out.join(format!("{name}_{version}_amd64.deb"));
    // One thread: the frames of several depend on how many there are.
    output(
        bound_command("dpkg-deb")
            .args(["--root-owner-group", "-Zzstd", "--threads-max=1", "--build"])
            .arg(tree.root())
            .arg(&deb)
            .env("SOURCE_DATE_EPOCH", epoch),
    )?;
    Ok(deb)
}

/// Sums of all files, and the names of those an operator may change.
fn lists(tree: &Tree) -> Result<(Vec<u8>, String)> {
    let files = tree.files()?;
    let mut md5 = bound_command("md5sum");
    md5.current_dir(tree.root()).args(files.iter().filter(|file| !file.starts_with("etc")));
    let sums = output(&mut md5)?;
    let conffiles = files.iter().filter(|file| file.starts_with("etc"));
    Ok((sums, conffiles.map(|file| format!("/{}\n", file.display())).collect()))
}

fn installed_size(tree: &Tree) -> Result<u64> {
    let mut kib = 0;
    for file in tree.files()? {
        kib += fs::symlink_metadata(tree.root().join(file))?.len().div_ceil(KIB);
    }
    Ok(kib)
}
