//! The quick stage: agent, user and overlay files on a base tree, packed as erofs.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result, ensure};
use serde::Serialize;

use super::{base, script};
use crate::agent::Programs;
use crate::cache::{Cache, MANIFEST};
use crate::hash::{self, Key};
use crate::hint::Hint;
use crate::job::Job;
use crate::recipe::Recipe;
use crate::{hygiene, repo, setup};

/// The root file system.
pub const IMAGE: &str = "image.erofs";
/// Raised when the way of building changes.
const FORMAT: &str = "2";

#[derive(Serialize)]
struct Manifest<'a> {
    name: &'a str,
    description: &'a str,
    key: &'a str,
    sha256: String,
    size_bytes: u64,
    base_key: &'a str,
    agent_sha256: &'a str,
    user: &'a crate::recipe::User,
    packages: Vec<String>,
}

/// An image that could be built now: its key and what goes into it.
pub struct Plan {
    name: String,
    /// Key of the image.
    pub key: String,
    base_key: String,
    agent: PathBuf,
    agent_sha256: String,
    interpreters: PathBuf,
    native: PathBuf,
    clock: PathBuf,
    overlays: Vec<PathBuf>,
}

impl Plan {
    /// The image's kind in the cache.
    pub fn kind(&self) -> String {
        format!("images/{}", self.name)
    }
}

/// Works out what the image of a recipe depends on.
pub fn plan(recipe: &Recipe, programs: &Programs) -> Result<Plan> {
    let root = repo::root().join("rootfs");
    let agent = std::path::absolute(&programs.agent)?;
    let agent_sha256 = hash::file(&agent).hint("run `cargo xtask agent`")?;
    let base_key = base::key(recipe)?;
    let mut key = Key::default()
        .add("format", FORMAT)
        .add("base", &base_key)
        .add("agent", &agent_sha256)
        .add("native", fs::read(&programs.native).context("cannot read the interpreters' native library")?)
        .add("clock", fs::read(&programs.clock).context("cannot read the library of clocks")?)
        .add("user", serde_json::to_string(&recipe.user)?)
        .add("assemble", fs::read(root.join("assemble.sh")).context("cannot read rootfs/assemble.sh")?)
        .add("erofs-utils", setup::installed_version("erofs-utils")?.unwrap_or_default());
    let interpreters = root.join("interpreters");
    for language in ["node", "python"] {
        for file in files_below(&interpreters.join(language))? {
            let name = file.strip_prefix(&interpreters).unwrap_or(&file).display().to_string();
            key = key.add(&name, fs::read(&file)?);
        }
    }
    let mut overlays = Vec::new();
    for overlay in &recipe.overlays {
        let dir = root.join("files").join(overlay);
        let files = files_below(&dir)
            .with_context(|| format!("the overlay {overlay} cannot be read"))
            .hint("overlays are folders of rootfs/files/")?;
        for file in files {
            let executable = fs::metadata(&file)?.permissions().mode() & 0o100 != 0;
            let name = file.strip_prefix(&dir).unwrap_or(&file).display().to_string();
            key = key.add(&format!("{name} {executable}"), fs::read(&file)?);
        }
        overlays.push(dir);
    }
    let native = std::path::absolute(&programs.native)?;
    let clock = std::path::absolute(&programs.clock)?;
    let name = recipe.name.clone();
    Ok(Plan { name, key: key.finish(), base_key, agent, agent_sha256, interpreters, native, clock, overlays })
}

/// Makes [`IMAGE`] and its manifest in `work` from the base in `base_dir`.
pub fn make(cache: &Cache, recipe: &Recipe, plan: &Plan, base_dir: &Path, work: &Path) -> Result<()> {
    let mut job = Job::start(cache, &format!("image {}", recipe.name))?;
    assemble(&mut job, recipe, plan, base_dir, work)?;
    let image = work.join(IMAGE);
    let packages = fs::read_to_string(base_dir.join(base::PACKAGES))?;
    let size_bytes = fs::metadata(&image)?.len();
    let manifest = Manifest {
        name: &recipe.name,
        description: &recipe.description,
        key: &plan.key,
        sha256: hash::file(&image)?,
        size_bytes,
        base_key: &plan.base_key,
        agent_sha256: &plan.agent_sha256,
        user: &recipe.user,
        packages: packages.lines().map(str::to_owned).collect(),
    };
    fs::write(work.join(MANIFEST), serde_json::to_string_pretty(&manifest)? + "\n")?;
    job.finish(&format!("built, {} MiB", size_bytes >> 20));
    Ok(())
}

/// Makes [`IMAGE`] in `work`, and nothing else.
pub fn assemble(job: &mut Job, recipe: &Recipe, plan: &Plan, base_dir: &Path, work: &Path) -> Result<()> {
    let tree = work.join("image-tree");
    let owners = work.join("image-owners");
    let base_owners = base_dir.join(base::OWNERS);
    job.step("adding the agent, the user and the overlays")?;
    let user = &recipe.user;
    job.run(
        script(Some(&base_owners), &owners, "finish")
            .arg(&tree)
            .arg(base_dir.join(base::TREE))
            .args([&plan.agent, &plan.interpreters, &plan.native, &plan.clock])
            .args([&user.name, &user.uid.to_string(), &user.gid.to_string(), &user.home, &user.shell])
            .args(&plan.overlays),
    )?;
    hygiene::check(&tree, &plan.overlays)?;

    job.step("packing")?;
    let image = work.join(IMAGE);
    job.run(
        script(Some(&owners), &owners, "pack").arg(&tree).arg(&image).args([super::EPOCH, &uuid(&plan.key)]),
    )?;
    fs::remove_dir_all(&tree)?;
    let _ = fs::remove_file(&owners);
    let size = fs::metadata(&image)?.len();
    ensure!(size > 0, "mkfs.erofs left an empty image");
    Ok(())
}

/// The file system's id: the key, in the shape of a UUID.
fn uuid(key: &str) -> String {
    format!("{}-{}-{}-{}-{}", &key[0..8], &key[8..12], &key[12..16], &key[16..20], &key[20..32])
}

fn files_below(dir: &Path) -> Result<Vec<PathBuf>> {
    let mut files = Vec::new();
    let mut folders = vec![dir.to_path_buf()];
    while let Some(folder) = folders.pop() {
        for entry in fs::read_dir(&folder).with_context(|| format!("cannot read {}", folder.display()))? {
            let path = entry?.path();
            if path.is_dir() {
                folders.push(path);
            } else {
                files.push(path);
            }
        }
    }
    files.sort();
    Ok(files)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_new_agent_makes_a_new_image_on_the_same_base() {
        let recipe = Recipe::load(&repo::root().join("rootfs"), "minimal").unwrap();
        let dir = tempfile::tempdir().unwrap();
        let place = |name: &str| dir.path().join(name);
        let programs = Programs { agent: place("agent"), native: place("native"), clock: place("clock") };
        for program in [&programs.agent, &programs.native, &programs.clock] {
            fs::write(program, "one").unwrap();
        }
        let first = plan(&recipe, &programs).unwrap();
        assert_eq!(plan(&recipe, &programs).unwrap().key, first.key);
        for changed in [&programs.agent, &programs.native, &programs.clock] {
            fs::write(changed, "two").unwrap();
            let second = plan(&recipe, &programs).unwrap();
            assert_ne!(second.key, first.key);
            assert_eq!(second.base_key, first.base_key);
            fs::write(changed, "one").unwrap();
        }
    }

    #[test]
    fn another_package_makes_another_base_and_another_word_about_it_does_not() {
        let rootfs = repo::root().join("rootfs");
        let mut recipe = Recipe::load(&rootfs, "minimal").unwrap();
        let before = base::key(&recipe).unwrap();
        recipe.description = "other words".into();
        assert_eq!(base::key(&recipe).unwrap(), before);
        recipe.debian.packages.push("git".into());
        assert_ne!(base::key(&recipe).unwrap(), before);
    }

    #[test]
    fn a_key_becomes_a_uuid() {
        assert_eq!(uuid("0123456789abcdef0123456789abcdef"), "01234567-89ab-cdef-0123-456789abcdef");
    }
}
