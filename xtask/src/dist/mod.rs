//! `cargo xtask dist`: a tarball, Debian packages, the wheel of the Python SDK and the npm package of the TypeScript SDK,
//! the same bytes each time, in `target/dist/`.
//!
//! ```text
//! parts (program, agent, kernel, images) ──► tree ──► .deb, .tar.zst ──► SHA256SUMS
//!                                            sbom ──┘                           ▲
//!                     sdk/python, sdk/typescript ──► .whl, .tgz ──┴──────────────┘
//! ```
//!
//! Everything dated has one date: `SOURCE_DATE_EPOCH`, else that of the last commit.

mod deb;
mod install;
mod layout;
mod npm;
mod parts;
mod sbom;
mod tarball;
mod tree;
mod wheel;

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result, ensure};

use self::deb::About;
use self::layout::output;
use self::parts::Parts;
use self::tree::{Mode, Tree};
use crate::cache::Cache;
use crate::hint::Hint;
use crate::job::bound_command;
use crate::{hash, lab, repo, rootfs};

pub use install::{check as check_install, obstacle as install_obstacle};

/// The version of everything in the workspace.
const VERSION: &str = env!("CARGO_PKG_VERSION");
const SUMS: &str = "SHA256SUMS";

/// What to do besides.
#[derive(clap::Args)]
pub struct Args {
    /// Build the program again in another folder, pack everything again, and compare the bytes
    #[arg(long)]
    check_reproducible: bool,
    /// Install, use, upgrade, remove and purge the packages in an empty Debian 12 tree (as root)
    #[arg(long)]
    check_install: bool,
    /// Start the package's unit under a real systemd and use it on Firecracker, in the lab
    #[arg(long)]
    check_unit: bool,
}

/// The files that were made.
pub struct Dist {
    /// The package with the program.
    pub package: PathBuf,
    /// The package with the large image.
    pub python_node: PathBuf,
    sums: PathBuf,
}

/// Makes everything and says where it is.
pub fn run(args: &Args) -> Result<()> {
    let cache = Cache::open()?;
    let dist = build(&cache)?;
    print!("{}", fs::read_to_string(&dist.sums)?);
    println!("{}", dist.sums.display());
    if args.check_reproducible {
        check_reproducible(&cache, &dist)?;
    }
    if args.check_install {
        check_install(&cache, &dist)?;
    }
    if args.check_unit {
        lab::package(&cache, &dist.package)?;
    }
    Ok(())
}

/// Makes everything in `target/dist/`.
pub fn build(cache: &Cache) -> Result<Dist> {
    let target = repo::target_dir();
    pack(&Parts::build(cache, &target)?, &target.join("dist"))
}

/// Builds the program again in another folder, packs everything again, and compares the bytes.
fn check_reproducible(cache: &Cache, dist: &Dist) -> Result<()> {
    let target = repo::target_dir().join("dist-again");
    if target.exists() {
        fs::remove_dir_all(&target)?;
    }
    compare(dist, &pack(&Parts::build(cache, &target)?, &target.join("dist"))?)?;
    fs::remove_dir_all(&target)?;
    println!("reproducible");
    Ok(())
}

/// Packs the same programs again, which takes seconds, and compares the bytes.
pub fn check_packing(cache: &Cache, dist: &Dist) -> Result<()> {
    let target = repo::target_dir();
    let out = target.join("dist-again");
    compare(dist, &pack(&Parts::build(cache, &target)?, &out)?)?;
    Ok(fs::remove_dir_all(&out)?)
}

fn compare(first: &Dist, second: &Dist) -> Result<()> {
    let (first, second) = (fs::read_to_string(&first.sums)?, fs::read_to_string(&second.sums)?);
    (|| {
        ensure!(first == second, "two builds differ:\n{first}\n{second}");
        Ok(())
    })()
    .hint("unpack both and compare the trees; `diffoscope` does that")
}

/// Packs the parts into `out`, which holds nothing else afterwards.
fn pack(parts: &Parts, out: &Path) -> Result<Dist> {
    let epoch = epoch();
    // Also the folder that everything is laid out in: it goes at the end.
    let work = Tree::create(out.to_owned())?.root().join("work");
    let libc = parts::libc_version(&fs::read(&parts.rekindle)?)?;
    let wheel = wheel::build(VERSION, &epoch, out)?;
    let npm = npm::build(&parts.compiler, VERSION, &epoch, out)?;
    let sbom = sbom::write(parts, &[("pypi", &wheel), ("npm", &npm)], VERSION, &epoch)?;
    let about = |name| About { name, version: VERSION, libc: &libc, epoch: &epoch };
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
    layout::legal(&tree, "rekindle", &changelog("rekindle", &epoch)?)?;
    let config = repo::root().join("packaging/etc/rekindle.toml");
    tree.copy("etc/rekindle/rekindle.toml", Mode::Data, &config)?;
    tree.dir("etc/rekindle/templates")?;
    let package = deb::build(&tree, &about("rekindle"), out)?;

    let large = "rekindle-python-node";
    let tree = Tree::create(work.join(large))?;
    layout::image(&tree, "usr/", "python-node", image(parts, "python-node")?)?;
    layout::legal(&tree, large, &changelog(large, &epoch)?)?;
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
fn changelog(package: &str, epoch: &str) -> Result<String> {
    let date = date(epoch, "--rfc-email")?;
    Ok(format!(
        "{package} ({VERSION}) unstable; urgency=medium\n\n  * /usr/share/doc/rekindle/changelog.gz has what \
         changed.\n\n -- Rekindle maintainers <maintainers@rekindle.invalid>  {date}\n"
    ))
}

/// The date of everything, in seconds since 1970.
fn epoch() -> String {
    let named = std::env::var("SOURCE_DATE_EPOCH").ok().filter(|text| text.parse::<u64>().is_ok());
    let commit = || {
        let mut git = Command::new("git");
        let said = output(git.current_dir(repo::root()).args(["log", "-1", "--format=%ct"])).ok()?;
        let text = String::from_utf8(said).ok()?.trim().to_owned();
        text.parse::<u64>().is_ok().then_some(text)
    };
    // An unpacked source archive has no commits.
    named.or_else(commit).unwrap_or_else(|| rootfs::EPOCH.to_owned())
}

/// That date as `date` writes it.
fn date(epoch: &str, format: &str) -> Result<String> {
    let said = output(bound_command("date").args(["--utc", "--date", &format!("@{epoch}"), format]))?;
    Ok(String::from_utf8_lossy(&said).trim().to_owned())
}

#[cfg(test)]
mod tests;
