//! `cargo xtask build`: everything a guest needs, on a fresh machine or an old one.

use anyhow::Result;

use crate::cache::{Built, Cache};
use crate::{agent, kernel, rootfs, setup};

/// Builds agent, kernel and all root images but those that nobody has asked for yet; what is up to date is left alone.
pub fn run() -> Result<()> {
    setup::packages()?;
    let cache = Cache::open()?;
    // An interrupted build left up to a gigabyte, and this run may have nothing to build.
    cache.remove_stale()?;
    let programs = agent::build()?;
    let kernel = kernel::build(&cache)?;
    println!("agent              {}", programs.agent.display());
    tell("kernel", &kernel, "vmlinux");
    for name in rootfs::wanted(&cache)? {
        let image = rootfs::build(&cache, &name, &programs)?;
        tell(&format!("image {name}"), &image, rootfs::IMAGE);
    }
    Ok(())
}

fn tell(what: &str, built: &Built, file: &str) {
    let state = if built.fresh { "new" } else { "up to date" };
    println!("{what:<18} {} ({state})", built.dir.join(file).display());
}
