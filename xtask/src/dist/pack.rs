//! Packs what was built: tarball, Debian packages, SDKs, their hashes and the bill of materials.

use std::fs;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result};

use super::date::{date, epoch};
use super::deb::{self, About};
use super::maintainer::maintainer;
use super::parts::{self, Parts};
use super::tree::{Mode, Tree};
use super::{Dist, VERSION, layout, npm, sbom, tarball, wheel};
use crate::{hash, repo};

const SUMS: &str = "SHA256SUMS";

/// Packs the parts into `out`, which holds nothing else afterwards.
pub fn pack(parts: &Parts, out: &Path) -> Result<Dist> {
    let epoch = epoch();
    let maintainer = maintainer()?;
    // Also the folder that everything is laid out in: it goes at the end.
    let work = Tree::create(out.to_owned())?.root().join("work");
    let libc = parts::libc_version(&fs::read(&parts.rekindle)?)?;
    let wheel = wheel::build(VERSION, &epoch, out)?;
    let npm = npm::build(&parts.compiler, VERSION, &epoch, out)?;
    let sbom = sbom::write(parts, &[("pypi", &wheel), ("npm", &npm)], VERSION, &epoch)?;
    let about = |name| About { name, version: VERSION, libc: &libc, maintainer: &maintainer, epoch: &epoch };
    let name = format!("rekindle-{VERSION}-x86_64-linux");

    let tree = Tree::create(work.join("tarball"))?;
    layout::program(&tree, "", "/usr/local", parts, &sbom)?;
    layout::image(&tree, "", layout::SMALL, image(parts, layout::SMALL)?)?;
    for (file, from) in [("LICENSE", "LICENSE"), ("rekindle.toml", "packaging/etc/rekindle.toml")] {
        tree.copy(&format!("share/doc/rekindle/{file}"), Mode::Data, &repo::root().join(from))?;
    }
    let mut made = vec![tarball::build(&tree, &name, &epoch, out)?];

    let tree = Tree::create(work.join("rekindle"))?;
    layout::program(&tree, "usr/", "/usr", parts, &sbom)?;
    layout::image(&tree, "usr/", layout::SMALL, image(parts, layout::SMALL)?)?;
    layout::legal(&tree, "rekindle", &changelog("rekindle", &maintainer, &epoch)?)?;
    let config = repo::root().join("packaging/etc/rekindle.toml");
    tree.copy("etc/rekindle/rekindle.toml", Mode::Data, &config)?;
    tree.dir("etc/rekindle/templates")?;
    let package = deb::build(&tree, &about("rekindle"), out)?;

    let large = "rekindle-python-node";
    let tree = Tree::create(work.join(large))?;
    layout::image(&tree, "usr/", "python-node", image(parts, "python-node")?)?;
    layout::legal(&tree, large, &changelog(large, &maintainer, &epoch)?)?;
    let python_node = deb::build(&tree, &about(large), out)?;
    fs::remove_dir_all(&work)?;

    let bill = out.join(format!("{name}.cdx.json"));
    fs::write(&bill, &sbom)?;
    made.extend([package.clone(), python_node.clone(), bill, wheel, npm]);
    Ok(Dist { package, python_node, sums: sums(&mut made, out)? })
}

fn image<'a>(parts: &'a Parts, name: &str) -> Result<&'a Path> {
    let found = parts.images.iter().find(|(image, _)| image == name);
    Ok(&found.with_context(|| format!("there is no image {name}"))?.1)
}

/// Writes the hashes of all files, as `sha256sum --check` reads them.
fn sums(files: &mut [PathBuf], out: &Path) -> Result<PathBuf> {
    files.sort();
    let mut text = String::new();
    for file in files.iter() {
        let name = file.file_name().context("a file has no name")?.to_string_lossy();
        text += &format!("{}  {name}\n", hash::file(file)?);
    }
    let path = out.join(SUMS);
    fs::write(&path, text)?;
    Ok(path)
}

/// Debian's changelog, which only points at ours.
fn changelog(package: &str, maintainer: &str, epoch: &str) -> Result<String> {
    let date = date(epoch, "--rfc-email")?;
    Ok(format!(
        "{package} ({VERSION}) unstable; urgency=medium\n\n  * /usr/share/doc/rekindle/changelog.gz has what \
         changed.\n\n -- {maintainer}  {date}\n"
    ))
}

#[cfg(test)]
mod tests;
