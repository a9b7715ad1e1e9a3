//! The slow stage: a stripped Debian tree with the pinned packages.
//!
//! `mmdebstrap` makes it (as root, or in a user namespace for an ordinary user), and
//! `rootfs/customize.sh` runs inside it at the end. Packages and downloads are kept in
//! the cache, so a second build needs little more network than the package lists.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::process::Command;

use anyhow::{Context, Result};
use nix::unistd::geteuid;
use serde::Serialize;

use super::mirror::{Mirrors, mirrors};
use crate::cache::{Built, Cache, MANIFEST};
use crate::hash::Key;
use crate::job::{Job, bound_command};
use crate::recipe::{Node, Pin, Recipe};
use crate::{hygiene, registry, repo, setup};

/// The tree, with real owners if root built it.
pub const TREE: &str = "tree";
/// The owners of the tree's files as fakeroot keeps them, if an ordinary user built it.
pub const OWNERS: &str = "owners";
/// What mmdebstrap makes; removed once it is unpacked.
const TAR: &str = "base.tar";
/// One line per package in it: name and version.
pub const PACKAGES: &str = "packages.txt";
/// Raised when the way of building changes.
const FORMAT: &str = "2";

#[derive(Serialize)]
struct Manifest<'a> {
    name: &'a str,
    key: &'a str,
}

/// The base tree of a recipe.
pub fn build(cache: &Cache, recipe: &Recipe) -> Result<Built> {
    let key = key(recipe)?;
    cache.build(&format!("base/{}", recipe.name), &key, |work| {
        let mut job = Job::start(cache, &format!("base {}", recipe.name))?;
        make(cache, &mut job, recipe, work)?;
        let manifest = Manifest { name: &recipe.name, key: &key };
        fs::write(work.join(MANIFEST), serde_json::to_string_pretty(&manifest)? + "\n")?;
        job.finish("built");
        Ok(())
    })
}

/// What the tree depends on. Descriptions, overlays and the user come later.
pub fn key(recipe: &Recipe) -> Result<String> {
    let inputs =
        serde_json::to_string(&(&recipe.debian, &recipe.pip, &recipe.node, &recipe.npm, &recipe.strip))?;
    let tool = setup::installed_version("mmdebstrap")?.unwrap_or_default();
    Ok(Key::default()
        .add("format", FORMAT)
        .add("recipe", inputs)
        .add("customize", fs::read(customize()).context("cannot read rootfs/customize.sh")?)
        .add("epoch", super::EPOCH)
        .add("mmdebstrap", tool)
        .finish())
}

/// Makes [`TREE`], [`OWNERS`] and [`PACKAGES`] in `work`.
pub fn make(cache: &Cache, job: &mut Job, recipe: &Recipe, work: &Path) -> Result<()> {
    let inputs = work.join("inputs");
    stage_inputs(cache, job, recipe, &inputs)?;
    let debs = cache.root().join("debs").join(&recipe.debian.release);
    fs::create_dir_all(&debs)?;

    job.step(&format!("installing Debian {}", recipe.debian.release))?;
    let Mirrors { main, security } = mirrors();
    let release = &recipe.debian.release;
    let mut command = debootstrap();
    command.env_clear();
    // Proxies are the only part of this machine's environment that a build may need.
    let wanted = |name: &str| name == "PATH" || name == "HOME" || name.to_lowercase().ends_with("_proxy");
    command.envs(std::env::vars().filter(|(name, _)| wanted(name)));
    command.env("SOURCE_DATE_EPOCH", super::EPOCH).env("LC_ALL", "C.UTF-8");
    if geteuid().is_root() {
        // In the cache's file system; an ordinary user's namespace could not enter it.
        command.env("TMPDIR", work);
    }
    command
        .args(["--variant=essential", "--skip=essential/unlink", "--dpkgopt=force-unsafe-io"])
        .args(["--aptopt=Acquire::Retries \"2\"", "--aptopt=Acquire::http::Timeout \"20\""])
        .args(["--aptopt=APT::Install-Recommends \"false\"", "--aptopt=Acquire::Languages \"none\""])
        .arg(format!("--include={}", recipe.debian.packages.join(",")))
        .arg("--setup-hook=mkdir -p \"$1\"/var/cache/apt/archives")
        .arg(format!("--setup-hook=sync-in {} /var/cache/apt/archives", quote(&debs)))
        .arg(format!("--customize-hook=sync-out /var/cache/apt/archives {}", quote(&debs)))
        .arg("--customize-hook=mkdir \"$1\"/rekindle-build")
        .arg(format!("--customize-hook=sync-in {} /rekindle-build", quote(&inputs)))
        .arg("--customize-hook=chroot \"$1\" sh /rekindle-build/customize.sh")
        .arg(format!(
            "--customize-hook=download /rekindle-build/packages.txt {}",
            quote(&work.join(PACKAGES))
        ))
        .arg("--customize-hook=rm -rf \"$1\"/rekindle-build")
        .arg(release)
        .arg(work.join(TAR))
        .arg(format!("deb {main} {release} main"))
        .arg(format!("deb {main} {release}-updates main"))
        .arg(format!("deb {security} {release}-security main"));
    job.run(&mut command)?;
    hygiene::no_mounts_under(work)?;
    fs::remove_dir_all(&inputs)?;

    job.step("unpacking")?;
    // The tree holds set-user-id programs: nobody else is to reach them.
    fs::set_permissions(work, fs::Permissions::from_mode(0o700))?;
    let tar = work.join(TAR);
    job.run(super::script(None, &work.join(OWNERS), "unpack").arg(work.join(TREE)).arg(&tar))?;
    fs::remove_file(&tar)?;
    Ok(())
}

/// mmdebstrap, in a mount namespace of its own where root runs it: whatever happens to it,
/// no mount stays behind. For an ordinary user it makes its own namespaces.
pub fn debootstrap() -> Command {
    let can =
        || Command::new("unshare").args(["--mount", "true"]).output().is_ok_and(|out| out.status.success());
    if geteuid().is_root() && can() {
        let mut command = bound_command("unshare");
        command.args(["--mount", "--", "mmdebstrap"]);
        return command;
    }
    bound_command("mmdebstrap")
}

/// Everything `customize.sh` needs, in one folder: it has no network.
fn stage_inputs(cache: &Cache, job: &mut Job, recipe: &Recipe, inputs: &Path) -> Result<()> {
    for folder in ["wheels", "npm"] {
        fs::create_dir_all(inputs.join(folder))?;
    }
    fs::copy(customize(), inputs.join("customize.sh"))?;
    let node = recipe.node.as_ref().map(Node::wheel);
    let pins: Vec<&Pin> = recipe.pip.iter().chain(&node).collect();
    let mut files = registry::wheels(cache, job, &recipe.debian.python, &pins)?;
    let node = node.and_then(|_| files.pop());
    let mut requirements = String::new();
    for (wheel, file) in recipe.pip.iter().zip(&files) {
        fs::copy(file, inputs.join("wheels").join(file.file_name().context("a wheel has no name")?))?;
        requirements += &format!("{}=={} --hash=sha256:{}\n", wheel.name, wheel.version, wheel.sha256);
    }
    fs::write(inputs.join("requirements.txt"), requirements)?;
    if let Some(wheel) = &node {
        fs::copy(wheel, inputs.join("node.whl"))?;
    }
    let mut list = String::new();
    let archives = registry::npm(cache, job, &recipe.npm, node.as_deref())?;
    for (index, (package, file)) in recipe.npm.iter().zip(&archives).enumerate() {
        fs::copy(file, inputs.join("npm").join(format!("{index}.tgz")))?;
        list += &format!("{index}.tgz {} {}", package.name, package.version);
        for (command, path) in &package.bin {
            list += &format!(" {command}={path}");
        }
        list.push('\n');
    }
    fs::write(inputs.join("npm.list"), list)?;
    fs::write(
        inputs.join("strip.list"),
        recipe.strip.iter().map(|path| format!("{path}\n")).collect::<String>(),
    )?;
    Ok(())
}

fn customize() -> std::path::PathBuf {
    repo::root().join("rootfs/customize.sh")
}

/// A path as one word of mmdebstrap's hooks, which are split like a shell would.
pub fn quote(path: &Path) -> String {
    format!("'{}'", path.display().to_string().replace('\'', "'\\''"))
}
