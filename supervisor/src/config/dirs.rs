//! Where things are kept on this host.

use std::ffi::OsString;
use std::path::{Path, PathBuf};

use super::installation::{Installation, SYSTEM_CONFIG};

/// The directories everything lives in.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Dirs {
    /// Snapshots, scratch blanks, work directories: `REKINDLE_DATA`, else `/var/lib/rekindle` for root,
    /// else `$XDG_DATA_HOME/rekindle` or `~/.local/share/rekindle`.
    pub data: PathBuf,
    /// Kernels and images that were built here: `REKINDLE_CACHE`, else `cache` in the data directory for an
    /// installed program, else `$XDG_CACHE_HOME/rekindle` or `~/.cache/rekindle`.
    pub cache: PathBuf,
    /// Kernel, images and recipes that came with an installed program.
    pub share: Option<PathBuf>,
}

/// Neither the variables nor a home directory say where to keep things.
#[derive(Debug, PartialEq, Eq, thiserror::Error)]
#[error("there is no home directory to keep things in\nhint: set {variable}")]
pub struct NoHome {
    /// The variable that would help.
    pub variable: &'static str,
}

impl Dirs {
    /// Finds them from this process's environment, user and place.
    ///
    /// # Errors
    /// When there is nothing to go by.
    pub fn find() -> Result<Self, NoHome> {
        let root = nix::unistd::geteuid().is_root();
        Self::from(|name| std::env::var_os(name), root, Installation::of_this_program())
    }

    fn from(
        env: impl Fn(&str) -> Option<OsString>,
        root: bool,
        installation: &Installation,
    ) -> Result<Self, NoHome> {
        // An empty or relative value means unset, as the XDG specification has it.
        let dir = |name: &str| env(name).map(PathBuf::from).filter(|path| path.is_absolute());
        let below = |xdg: &str, home: &str| {
            dir(xdg).or_else(|| dir("HOME").map(|dir| dir.join(home))).map(|dir| dir.join("rekindle"))
        };
        let data = dir("REKINDLE_DATA")
            .or_else(|| root.then(|| PathBuf::from("/var/lib/rekindle")))
            .or_else(|| below("XDG_DATA_HOME", ".local/share"))
            .ok_or(NoHome { variable: "REKINDLE_DATA" })?;
        let share = installation.share().map(Path::to_owned);
        let cache = dir("REKINDLE_CACHE")
            // What an installed program keeps is in one place, so that removing it leaves nothing.
            .or_else(|| share.is_some().then(|| data.join("cache")))
            .or_else(|| below("XDG_CACHE_HOME", ".cache"))
            .ok_or(NoHome { variable: "REKINDLE_CACHE" })?;
        Ok(Self { data, cache, share })
    }

    /// Where kernels and images are looked for: those built here win over those that were installed.
    #[must_use]
    pub fn artifacts(&self) -> Vec<PathBuf> {
        [Some(&self.cache), self.share.as_ref()].into_iter().flatten().cloned().collect()
    }

    /// Where recipes are looked for, the first that has one wins: what `REKINDLE_TEMPLATES` names, a person's
    /// own, the operator's, the package's.
    #[must_use]
    pub fn templates(&self) -> Vec<PathBuf> {
        let named = std::env::var_os("REKINDLE_TEMPLATES").map(PathBuf::from);
        let own = [Some(self.data.clone()), Some(PathBuf::from(SYSTEM_CONFIG)), self.share.clone()];
        named.into_iter().chain(own.into_iter().flatten().map(|dir| dir.join("templates"))).collect()
    }

    /// Where `rekindle setup` puts Firecracker and its jailer.
    #[must_use]
    pub fn firecracker(&self) -> PathBuf {
        self.data.join("firecracker")
    }
}

#[cfg(test)]
mod tests;
