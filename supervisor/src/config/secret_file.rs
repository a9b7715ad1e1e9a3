//! Whether a file that must stay secret is closed to others. For the key of the TLS server; tokens are read by
//! `config::tokens`, by the same rule.

use std::fs;
use std::io;
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};

/// Bits that open a file to whoever has an account on this host. A group may be let in on purpose, as that of the
/// people who renew certificates.
const EVERYBODY: u32 = 0o007;

/// Why a secret file cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum SecretFileError {
    /// It cannot be looked at.
    #[error("cannot read {}", path.display())]
    File {
        /// The file.
        path: PathBuf,
        /// Why.
        #[source]
        source: io::Error,
    },
    /// Anybody on the host could read it, or put another in its place.
    #[error("{} is open to everybody on this host (mode {mode:04o})\nhint: chmod 600 {}", path.display(), path.display())]
    Exposed {
        /// The file.
        path: PathBuf,
        /// Its permissions.
        mode: u32,
    },
}

/// Refuses a file that everybody on this host may read or write.
///
/// # Errors
/// See [`SecretFileError`].
pub fn check(path: &Path) -> Result<(), SecretFileError> {
    let data =
        fs::metadata(path).map_err(|source| SecretFileError::File { path: path.to_owned(), source })?;
    let mode = data.permissions().mode() & 0o7777;
    if mode & EVERYBODY == 0 { Ok(()) } else { Err(SecretFileError::Exposed { path: path.to_owned(), mode }) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_key_that_everybody_can_read_is_refused() {
        let dir = tempfile::tempdir().expect("a directory");
        let key = dir.path().join("key.pem");
        fs::write(&key, "secret").expect("written");
        for (mode, fine) in [(0o600, true), (0o400, true), (0o640, true), (0o644, false), (0o602, false)] {
            fs::set_permissions(&key, fs::Permissions::from_mode(mode)).expect("changed");
            assert_eq!(check(&key).is_ok(), fine, "mode {mode:o}");
        }
        let text = check(&key).expect_err("exposed").to_string();
        assert!(text.contains("mode 0602") && text.contains("hint: chmod 600"), "{text}");
        assert!(matches!(check(&dir.path().join("none")), Err(SecretFileError::File { .. })));
    }
}
