//! How this program came to this host: from a package, or built in a checkout.
//!
//! The one place that decides it, by what lies beside the program: `<prefix>/bin/rekindle` is installed where
//! there is a `<prefix>/share/rekindle`. That is where kernel, images and recipes of the package are, and it
//! decides what a person is told to do about a missing one.

use std::path::{Path, PathBuf};
use std::sync::OnceLock;

use super::template::TemplateName;

/// Where a package keeps the configuration and an operator's recipes.
pub const SYSTEM_CONFIG: &str = "/etc/rekindle";
/// The packages with an image, by the image's name.
const IMAGE_PACKAGES: [(&str, &str); 2] = [("minimal", "rekindle"), ("python-node", "rekindle-python-node")];

/// Where this program's own files are.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Installation {
    share: Option<PathBuf>,
}

impl Installation {
    /// That of this process.
    pub fn of_this_program() -> &'static Self {
        static FOUND: OnceLock<Installation> = OnceLock::new();
        FOUND.get_or_init(|| std::env::current_exe().map(|path| Self::of(&path)).unwrap_or_default())
    }

    /// That of a program.
    #[must_use]
    pub fn of(program: &Path) -> Self {
        let bin = program.parent().filter(|dir| dir.ends_with("bin"));
        let share = bin.and_then(Path::parent).map(|prefix| prefix.join("share/rekindle"));
        Self { share: share.filter(|dir| dir.is_dir()) }
    }

    /// Kernel, images and recipes that were installed with it, if it was installed.
    #[must_use]
    pub fn share(&self) -> Option<&Path> {
        self.share.as_deref()
    }

    /// What to do when the kernel is not there.
    #[must_use]
    pub fn kernel_hint(&self) -> String {
        match self.share {
            Some(_) => "install the package rekindle again: a part of it is gone".to_owned(),
            None => "run `cargo xtask kernel`".to_owned(),
        }
    }

    /// What to do when an image is not there.
    #[must_use]
    pub fn image_hint(&self, image: &TemplateName) -> String {
        if self.share.is_none() {
            return format!("run `cargo xtask rootfs {image}`");
        }
        match IMAGE_PACKAGES.iter().find(|(name, _)| *name == image.as_str()) {
            Some((_, package)) => format!("install the package {package}"),
            None => format!(
                "put image.erofs and manifest.json into images/{image}/current of the cache directory, or of \
                 the one that REKINDLE_CACHE names"
            ),
        }
    }

    /// Where the keys of a recipe are explained.
    #[must_use]
    pub fn recipe_guide(&self) -> String {
        match &self.share {
            Some(share) => share.join("templates/minimal.toml").display().to_string(),
            None => "snapshots/minimal.toml".to_owned(),
        }
    }
}

#[cfg(test)]
mod tests;
