//! `cargo xtask rootfs [NAME]`: root images from recipes, in two cached stages.
//!
//! ```text
//! recipe: packages, pip, npm, node ──► base tree    (base.rs, minutes, seldom)
//! base + overlays + user + agent  ──► image.erofs   (image.rs, seconds, every new agent)
//! ```

mod base;
mod image;
mod mirror;
mod reproduce;

use std::path::Path;
use std::process::Command;

use anyhow::Result;
use nix::unistd::geteuid;

use crate::agent::Programs;
use crate::cache::{Built, Cache};
use crate::job::bound_command;
use crate::recipe::{self, Recipe};
use crate::{agent, repo, setup};

pub use base::{debootstrap, quote};
pub use image::IMAGE;
pub use mirror::{Mirrors, mirrors};

/// The one timestamp in every image: 2025-01-01. Real ones would change every build.
pub const EPOCH: &str = "1735689600";

/// Which images, and how.
#[derive(clap::Args)]
pub struct Args {
    /// Name of a recipe in rootfs/; all of them when left out, but those on demand only where they were built before
    name: Option<String>,
    /// Build everything a second time, aside, and compare the bytes
    #[arg(long, requires = "name")]
    check_reproducible: bool,
}

/// Builds the images asked for and says where they are.
pub fn run(args: &Args) -> Result<()> {
    let cache = Cache::open()?;
    let names = match &args.name {
        Some(name) => vec![name.clone()],
        None => wanted(&cache)?,
    };
    // A bad recipe is reported before anything is installed or compiled.
    let rootfs = repo::root().join("rootfs");
    let recipes = names.iter().map(|name| Recipe::load(&rootfs, name)).collect::<Result<Vec<_>>>()?;
    setup::packages()?;
    let programs = programs()?;
    for recipe in &recipes {
        let image = build_recipe(&cache, recipe, &programs)?;
        println!("{}", image.dir.join(IMAGE).display());
        if args.check_reproducible {
            reproduce::check(&cache, recipe, &programs, &image.dir)?;
        }
    }
    Ok(())
}

/// The images to build where none is named: every one but those on demand that were never built here.
pub fn wanted(cache: &Cache) -> Result<Vec<String>> {
    let rootfs = repo::root().join("rootfs");
    let mut wanted = Vec::new();
    for name in recipe::names(&rootfs)? {
        if !Recipe::load(&rootfs, &name)?.on_demand || cache.root().join("images").join(&name).exists() {
            wanted.push(name);
        }
    }
    Ok(wanted)
}

/// The image of the recipe with this name.
pub fn build(cache: &Cache, name: &str, programs: &Programs) -> Result<Built> {
    build_recipe(cache, &Recipe::load(&repo::root().join("rootfs"), name)?, programs)
}

/// The tree that the current image of this name was packed from.
pub fn tree(cache: &Cache, name: &str) -> std::path::PathBuf {
    cache.root().join("base").join(name).join("current").join(base::TREE)
}

fn build_recipe(cache: &Cache, recipe: &Recipe, programs: &Programs) -> Result<Built> {
    let plan = image::plan(recipe, programs)?;
    if let Some(dir) = cache.find(&plan.kind(), &plan.key) {
        // Points `current` at it, which may be an older build that fits again.
        return cache.build(&plan.kind(), &plan.key, |_| unreachable!("{} is built", dir.display()));
    }
    let base = base::build(cache, recipe)?;
    cache.build(&plan.kind(), &plan.key, |work| image::make(cache, recipe, &plan, &base.dir, work))
}

/// What to install: the agent of `REKINDLE_AGENT` if a caller built it already, else a fresh build.
fn programs() -> Result<Programs> {
    match std::env::var_os("REKINDLE_AGENT") {
        Some(path) => agent::with_agent(path.into()),
        None => agent::build(),
    }
}

/// One verb of `assemble.sh`, as root or under fakeroot.
///
/// fakeroot reads the owners of files from `from` and leaves them in `to`.
pub fn script(from: Option<&Path>, to: &Path, verb: &str) -> Command {
    let mut command = if geteuid().is_root() {
        bound_command("sh")
    } else {
        let mut command = bound_command("fakeroot");
        if let Some(from) = from {
            command.arg("-i").arg(from);
        }
        command.arg("-s").arg(to).arg("--").arg("sh");
        command
    };
    command.arg(repo::root().join("rootfs/assemble.sh")).arg(verb);
    command
}
