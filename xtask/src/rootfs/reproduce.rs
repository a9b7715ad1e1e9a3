//! `--check-reproducible`: the same inputs give the same bytes.

use std::fs;
use std::path::Path;

use anyhow::{Context, Result, ensure};

use super::{base, image};
use crate::agent::Programs;
use crate::cache::Cache;
use crate::hash;
use crate::hint::Hint;
use crate::job::Job;
use crate::recipe::Recipe;

/// Builds base and image again, aside, and compares with the one in `image_dir`.
///
/// When the archive moved on since that one was built, its packages are other inputs;
/// then two fresh ones are compared.
pub fn check(cache: &Cache, recipe: &Recipe, programs: &Programs, image_dir: &Path) -> Result<()> {
    let plan = image::plan(recipe, programs)?;
    let (sha256, packages) = once(cache, recipe, &plan)?;
    let manifest: serde_json::Value = serde_json::from_str(
        &fs::read_to_string(image_dir.join(crate::cache::MANIFEST)).context("the image has no manifest")?,
    )?;
    let recorded: Vec<&str> = manifest["packages"]
        .as_array()
        .into_iter()
        .flatten()
        .filter_map(|package| package.as_str())
        .collect();
    let first = if recorded == packages.lines().collect::<Vec<_>>() {
        manifest["sha256"].as_str().unwrap_or_default().to_owned()
    } else {
        eprintln!("the archive has newer packages than the image: building two fresh ones");
        once(cache, recipe, &plan)?.0
    };
    (|| {
        ensure!(first == sha256, "two builds of {} differ: {first} and {sha256}", recipe.name);
        Ok(())
    })()
    .hint("unpack both with fsck.erofs --extract and compare the trees")?;
    println!("{} is reproducible: {sha256}", recipe.name);
    Ok(())
}

fn once(cache: &Cache, recipe: &Recipe, plan: &image::Plan) -> Result<(String, String)> {
    // Not through `Cache::build`: the result is only looked at.
    let work = cache.scratch(&format!("reproduce-{}", recipe.name))?;
    let mut job = Job::start(cache, &format!("second {}", recipe.name))?;
    base::make(cache, &mut job, recipe, work.path())?;
    image::assemble(&mut job, recipe, plan, work.path(), work.path())?;
    let sha256 = hash::file(&work.path().join(image::IMAGE))?;
    let packages = fs::read_to_string(work.path().join(base::PACKAGES))?;
    job.finish("built again");
    Ok((sha256, packages))
}
