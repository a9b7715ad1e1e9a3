//! Makes everything a second time and compares the bytes.

use std::fs;

use anyhow::{Result, ensure};

use super::Dist;
use super::pack::pack;
use super::parts::Parts;
use crate::cache::Cache;
use crate::hint::Hint;
use crate::repo;

/// Builds the program again in another folder, packs everything again, and compares the bytes.
pub fn check(cache: &Cache, dist: &Dist) -> Result<()> {
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
