//! Compiler flags under which a program is the same wherever it is built: no path of this machine gets into it.

use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result};

use crate::repo;

/// The variable cargo takes them from; unlike `RUSTFLAGS` it can hold paths with blanks.
pub const RUSTFLAGS: &str = "CARGO_ENCODED_RUSTFLAGS";

/// A place of this machine and the name it has in programs.
pub type Place = (PathBuf, &'static str);

/// The flags of a build in the folder `target`, with more of its own.
pub fn rustflags(target: &Path, more: &[&str]) -> Result<String> {
    let mut flags: Vec<String> = more.iter().map(|flag| (*flag).to_owned()).collect();
    for (place, name) in places(target)? {
        flags.push(format!("--remap-path-prefix={}={name}", place.display()));
    }
    Ok(flags.join("\x1f"))
}

/// The same for what C compilers build on the way.
pub fn cflags(target: &Path) -> Result<String> {
    let flag = |(place, name): Place| format!("-ffile-prefix-map={}={name}", place.display());
    Ok(places(target)?.into_iter().map(flag).collect::<Vec<_>>().join(" "))
}

/// Every place whose files end up in programs. A later one wins: they lie within each other.
pub fn places(target: &Path) -> Result<Vec<Place>> {
    let home = || std::env::var_os("HOME").map(|home| PathBuf::from(home).join(".cargo"));
    let cargo = std::env::var_os("CARGO_HOME").map(PathBuf::from).or_else(home);
    let output = Command::new("rustc").args(["--print", "sysroot"]).output().context("cannot start rustc")?;
    let sysroot = PathBuf::from(String::from_utf8_lossy(&output.stdout).trim());
    let mut places = vec![(repo::root(), "/rekindle"), (target.to_owned(), "/target")];
    places.extend(cargo.map(|cargo| (cargo, "/cargo")));
    places.push((sysroot, "/rust"));
    Ok(places)
}
