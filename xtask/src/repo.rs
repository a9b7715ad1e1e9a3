//! Where things are in the checkout.

use std::path::PathBuf;

/// The root of the checkout this binary was built from.
///
/// `REKINDLE_REPO` overrides it, so that tests can point a command at other recipes.
pub fn root() -> PathBuf {
    if let Some(path) = std::env::var_os("REKINDLE_REPO") {
        return PathBuf::from(path);
    }
    let manifest = PathBuf::from(env!("CARGO_MANIFEST_DIR"));
    manifest.parent().map(PathBuf::from).unwrap_or(manifest)
}

/// Cargo's target folder, as cargo itself would choose it.
pub fn target_dir() -> PathBuf {
    std::env::var_os("CARGO_TARGET_DIR").map_or_else(|| root().join("target"), PathBuf::from)
}
