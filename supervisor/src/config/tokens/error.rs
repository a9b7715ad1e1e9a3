//! Why a tokens file cannot be used or changed.

use std::io;
use std::path::PathBuf;

/// What went wrong with the file.
#[derive(Debug, thiserror::Error)]
pub enum TokensError {
    /// The file could not be read or written.
    #[error("cannot {operation} {}", path.display())]
    Io {
        /// What was tried.
        operation: &'static str,
        /// The file.
        path: PathBuf,
        /// What the kernel said.
        #[source]
        source: io::Error,
    },
    /// Anybody on the host could read it.
    #[error("{} is open to everybody on this host (mode {mode:04o})\nhint: chmod 600 {}", path.display(), path.display())]
    Exposed {
        /// The file.
        path: PathBuf,
        /// Its permissions.
        mode: u32,
    },
    /// It is a pipe, a device, a directory.
    #[error("{} is not a regular file\nhint: see auth.tokens", path.display())]
    NotAFile {
        /// What there is instead.
        path: PathBuf,
    },
    /// It is not a tokens file.
    #[error("{} is not a valid tokens file: {message}\nhint: `rekindle token create` writes one", path.display())]
    Invalid {
        /// The file.
        path: PathBuf,
        /// What is wrong.
        message: String,
    },
    /// There is no token of this id.
    #[error("there is no token {id} in {}\nhint: `rekindle token ls` shows the ids", path.display())]
    Unknown {
        /// The id.
        id: String,
        /// The file.
        path: PathBuf,
    },
    /// There is one already.
    #[error("there is a token {id} already in {}\nhint: choose another --id, or remove it first", path.display())]
    Taken {
        /// The id.
        id: String,
        /// The file.
        path: PathBuf,
    },
    /// The system has no random bytes to give.
    #[error("no random bytes can be had")]
    Random {
        /// Why.
        #[source]
        source: getrandom::Error,
    },
}
