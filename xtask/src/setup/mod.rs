//! `cargo xtask setup`: what the build needs from the machine.
//!
//! As root it installs missing Debian packages; otherwise it prints the one line to run.
//! Firecracker is found, or downloaded and checked where the network allows.

mod firecracker;
mod packages;

use anyhow::Result;

use crate::cache::Cache;

pub use firecracker::{find as find_firecracker, report as report_firecracker};
pub use packages::{
    ensure as packages, ensure_browser as browser, ensure_compared as compared, first_line,
    installed_version, on_path,
};

/// How far to go.
#[derive(clap::Args)]
pub struct Args {
    /// Only look: install and download nothing
    #[arg(long)]
    dry_run: bool,
}

/// Prepares the machine, and says plainly what could not be had.
pub fn run(args: &Args) -> Result<()> {
    let cache = Cache::open()?;
    if args.dry_run {
        let missing = packages::missing()?;
        if missing.is_empty() {
            println!("packages     all installed");
        } else {
            println!("packages     missing: {}", missing.join(" "));
        }
    } else {
        packages::ensure()?;
        println!("packages     all installed");
    }
    println!("firecracker  {}", firecracker::report(&cache, args.dry_run)?);
    Ok(())
}
