//! Makes what the tests need, and says where it is.

use std::ffi::OsString;

use anyhow::Result;

use super::Args;
use crate::cache::Cache;
use crate::{agent, kernel, rootfs, setup};

/// Packages, agent, and unless `--fast` kernel, images, Firecracker.
pub fn prepare(args: &Args, variables: &mut Vec<(&str, OsString)>) -> Result<()> {
    setup::packages()?;
    let programs = agent::build()?;
    variables.push(("REKINDLE_AGENT", programs.agent.clone().into()));
    let cache = Cache::open()?;
    variables.push(("REKINDLE_CACHE", cache.root().into()));
    if args.fast {
        return Ok(());
    }
    setup::browser()?;
    let firecracker = setup::report_firecracker(&cache, false)?;
    eprintln!("firecracker: {firecracker}");
    if let Some(path) = setup::find_firecracker(&cache) {
        variables.push(("REKINDLE_FIRECRACKER", path.into()));
    }
    kernel::build(&cache)?;
    for name in rootfs::wanted(&cache)? {
        rootfs::build(&cache, &name, &programs)?;
    }
    Ok(())
}
