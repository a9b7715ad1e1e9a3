//! Where things are kept on this host.

use std::ffi::OsString;
use std::path::PathBuf;

/// The two directories everything lives in.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Dirs {
    /// Snapshots, scratch blanks, work directories: `REKINDLE_DATA`, else `/var/lib/rekindle` for root,
    /// else `$XDG_DATA_HOME/rekindle` or `~/.local/share/rekindle`.
    pub data: PathBuf,
    /// Kernels and images: `REKINDLE_CACHE`, else `$XDG_CACHE_HOME/rekindle`, else `~/.cache/rekindle`.
    pub cache: PathBuf,
}

/// Neither the variables nor a home directory say where to keep things.
#[derive(Debug, PartialEq, Eq, thiserror::Error)]
#[error("there is no home directory to keep things in\nhint: set {variable}")]
pub struct NoHome {
    /// The variable that would help.
    pub variable: &'static str,
}

impl Dirs {
    /// Finds them from this process's environment and user.
    ///
    /// # Errors
    /// When there is nothing to go by.
    pub fn find() -> Result<Self, NoHome> {
        Self::from(|name| std::env::var_os(name), nix::unistd::geteuid().is_root())
    }

    fn from(env: impl Fn(&str) -> Option<OsString>, root: bool) -> Result<Self, NoHome> {
        // An empty or relative value means unset, as the XDG specification has it.
        let dir = |name: &str| env(name).map(PathBuf::from).filter(|path| path.is_absolute());
        let below = |xdg: &str, home: &str| {
            dir(xdg).or_else(|| dir("HOME").map(|dir| dir.join(home))).map(|dir| dir.join("rekindle"))
        };
        let data = dir("REKINDLE_DATA")
            .or_else(|| root.then(|| PathBuf::from("/var/lib/rekindle")))
            .or_else(|| below("XDG_DATA_HOME", ".local/share"))
            .ok_or(NoHome { variable: "REKINDLE_DATA" })?;
        let cache = dir("REKINDLE_CACHE")
            .or_else(|| below("XDG_CACHE_HOME", ".cache"))
            .ok_or(NoHome { variable: "REKINDLE_CACHE" })?;
        Ok(Self { data, cache })
    }
}

#[cfg(test)]
mod tests;
