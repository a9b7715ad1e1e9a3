//! The packages, tried after the tests.

use anyhow::Context;

use super::Args;
use super::tally::{Tally, outcome};
use crate::cache::Cache;
use crate::{dist, lab};

/// Makes the packages, goes through their life on a fresh Debian, and starts their unit on Firecracker.
pub fn packages(args: &Args, tally: &mut Tally) {
    const LIFE: &str = "the packages on an empty Debian 12";
    const UNIT: &str = "the package's unit under systemd, on Firecracker";
    let fast = args.fast.then_some("--fast leaves them out");
    let life = fast.or_else(dist::install_obstacle).map(str::to_owned);
    let unit = fast.map(str::to_owned).or_else(unit_obstacle);
    let mut made = None;
    for (name, obstacle) in [(LIFE, life), (UNIT, unit)] {
        if let Some(reason) = obstacle {
            tally.unavailable(name, &reason);
            continue;
        }
        eprintln!("==> {name}");
        let mut check = || {
            let cache = Cache::open()?;
            if made.is_none() {
                let dist = dist::build(&cache)?;
                dist::check_packing(&cache, &dist)?;
                made = Some(dist);
            }
            let dist = made.as_ref().context("there are no packages")?;
            if name == LIFE { dist::check_install(&cache, dist) } else { lab::package(&cache, &dist.package) }
        };
        tally.record(name, outcome(&check()));
    }
}

/// Why the package's unit cannot be tried: that takes a machine that may be changed.
fn unit_obstacle() -> Option<String> {
    if !lab::everything() {
        return Some(format!("it takes minutes; {}=1 asks for it", lab::EVERYTHING));
    }
    match Cache::open().map(|cache| lab::place(&cache)) {
        Ok(lab::Place::Lab) => None,
        Ok(lab::Place::Here) => {
            Some("it is installed in the lab only, and this machine needs none".to_owned())
        }
        Ok(lab::Place::Nowhere { reason }) => Some(reason),
        Err(error) => Some(error.to_string()),
    }
}
