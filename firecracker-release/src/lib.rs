//! The Firecracker release that Rekindle is tested with: its address, its hash, and what is kept of it.
//!
//! Used by `rekindle setup` on a host and by `cargo xtask setup` in a checkout, so that both fetch the same
//! thing. Whoever calls this downloads the archive and checks its hash; nothing here trusts a file.
#![forbid(unsafe_code)]

use std::ffi::OsStr;
use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::process::Command;

/// The version; 1.16.0 breaks vsock after a restore.
pub const VERSION: &str = "1.16.1";
/// The two programs of a release that are used.
pub const PROGRAMS: [&str; 2] = ["firecracker", "jailer"];
/// The variable that names a mirror of [`RELEASES`].
pub const MIRROR_ENV: &str = "REKINDLE_FIRECRACKER_MIRROR";

/// Where releases are.
pub const RELEASES: &str = "https://github.com/firecracker-microvm/firecracker/releases/download";
/// SHA-256 of the official archives.
const ARCHIVES: [(&str, &str); 2] = [
    ("x86_64", "382a02a869e4d6d5cb14c40577f9545e8458021ea8b0b2d3fc10ec14d9c242e6"),
    ("aarch64", "8d0e69f6d6f9a1724551f607f18504052c16c1828ee3d4d7b6e6c73380871e0e"),
];

/// One archive of a release.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Release {
    /// Where releases are, or a mirror of that.
    pub base: String,
    /// The machine it is for.
    pub machine: String,
    /// What the archive must hash to.
    pub sha256: String,
}

/// Why there is nothing to use.
#[derive(Debug, thiserror::Error)]
pub enum ReleaseError {
    /// Nobody releases it for this machine.
    #[error("there is no Firecracker release for {machine}")]
    NoSuchMachine {
        /// The machine.
        machine: String,
    },
    /// The archive could not be unpacked.
    #[error("tar cannot unpack {}: {message}", archive.display())]
    Unpack {
        /// The archive.
        archive: PathBuf,
        /// What tar said.
        message: String,
    },
    /// The archive is not laid out like a release.
    #[error("the archive holds no {program}")]
    Lacks {
        /// What is not in it.
        program: &'static str,
        /// What the kernel said.
        #[source]
        source: io::Error,
    },
    /// What is not needed could not be removed.
    #[error("cannot tidy {}", dir.display())]
    Tidy {
        /// Where.
        dir: PathBuf,
        /// What the kernel said.
        #[source]
        source: io::Error,
    },
}

impl Release {
    /// The pinned release for this machine, at `mirror` or at its official address.
    ///
    /// # Errors
    /// When there is none for this machine.
    pub fn pinned(mirror: Option<String>) -> Result<Self, ReleaseError> {
        let machine = std::env::consts::ARCH;
        let (_, sha256) = ARCHIVES
            .iter()
            .find(|(name, _)| *name == machine)
            .ok_or_else(|| ReleaseError::NoSuchMachine { machine: machine.to_owned() })?;
        let base = mirror.filter(|base| !base.is_empty()).unwrap_or_else(|| RELEASES.to_owned());
        Ok(Self { base, machine: machine.to_owned(), sha256: (*sha256).to_owned() })
    }

    /// The address of the archive.
    #[must_use]
    pub fn url(&self) -> String {
        let base = self.base.trim_end_matches('/');
        format!("{base}/v{VERSION}/firecracker-v{VERSION}-{}.tgz", self.machine)
    }

    /// Leaves the two programs, under the names they are looked for, in an empty directory.
    ///
    /// # Errors
    /// When the archive is not one of a release.
    pub fn unpack(&self, archive: &Path, dir: &Path) -> Result<(), ReleaseError> {
        let failed = |message: String| ReleaseError::Unpack { archive: archive.to_owned(), message };
        let output = Command::new("tar")
            .arg("-xzf")
            .arg(archive)
            .arg("-C")
            .arg(dir)
            .args(["--strip-components=1", "--no-same-owner"])
            .output()
            .map_err(|error| failed(error.to_string()))?;
        if !output.status.success() {
            return Err(failed(String::from_utf8_lossy(&output.stderr).trim().to_owned()));
        }
        for program in PROGRAMS {
            let released = dir.join(format!("{program}-v{VERSION}-{}", self.machine));
            fs::rename(&released, dir.join(program))
                .map_err(|source| ReleaseError::Lacks { program, source })?;
        }
        tidy(dir).map_err(|source| ReleaseError::Tidy { dir: dir.to_owned(), source })
    }
}

/// Removes everything but the two programs: symbols, specifications, licences of other parts.
fn tidy(dir: &Path) -> io::Result<()> {
    for entry in fs::read_dir(dir)? {
        let path = entry?.path();
        if PROGRAMS.iter().any(|name| path.file_name() == Some(OsStr::new(name))) {
            continue;
        }
        if path.is_dir() { fs::remove_dir_all(&path)? } else { fs::remove_file(&path)? }
    }
    Ok(())
}

#[cfg(test)]
mod tests;
