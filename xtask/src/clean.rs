//! `cargo xtask clean`: makes room in the build cache.

use std::fs;
use std::io::ErrorKind;

use anyhow::{Context, Result};

use crate::cache::Cache;
use crate::{recipe, repo};

/// What to remove.
#[derive(clap::Args)]
pub struct Args {
    /// Remove the current builds and all downloads too
    #[arg(long)]
    all: bool,
}

/// Removes leftovers and old builds, or with `--all` everything this tool put there.
pub fn run(args: &Args) -> Result<()> {
    let cache = Cache::open()?;
    cache.remove_stale()?;
    let mut kinds = vec!["kernel".to_owned(), "install-tree".to_owned()];
    for name in recipe::names(&repo::root().join("rootfs"))? {
        kinds.push(format!("images/{name}"));
        kinds.push(format!("base/{name}"));
    }
    for kind in &kinds {
        cache.prune_to(kind, 1)?;
    }
    let mut folders = vec!["debs"];
    if args.all {
        folders.extend([
            "kernel",
            "images",
            "base",
            "install-tree",
            "downloads",
            "registry",
            "logs",
            "firecracker",
        ]);
    }
    for folder in folders {
        let path = cache.root().join(folder);
        match fs::remove_dir_all(&path) {
            Err(error) if error.kind() != ErrorKind::NotFound => {
                return Err(error).with_context(|| format!("cannot remove {}", path.display()));
            }
            _ => {}
        }
    }
    println!("cleaned {}", cache.root().display());
    Ok(())
}
