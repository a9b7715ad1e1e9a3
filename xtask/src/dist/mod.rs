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

mod date;
mod deb;
mod install;
mod layout;
mod maintainer;
mod npm;
mod pack;
mod pages;
mod parts;
mod reproduce;
mod sbom;
mod tarball;
mod tree;
mod wheel;

use std::fs;
use std::path::PathBuf;

use anyhow::Result;

use self::parts::Parts;
use crate::cache::Cache;
use crate::{lab, repo};

pub use install::{check as check_install, obstacle as install_obstacle};
pub use reproduce::check_packing;

/// The version of everything in the workspace.
const VERSION: &str = env!("CARGO_PKG_VERSION");

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
        reproduce::check(&cache, &dist)?;
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
    pack::pack(&Parts::build(cache, &target)?, &target.join("dist"))
}
