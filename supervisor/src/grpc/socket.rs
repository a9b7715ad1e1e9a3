//! The unix socket: made for its owner and group alone, taken over from a dead supervisor, never from a live one.

use std::fs::{self, Permissions};
use std::io;
use std::os::unix::fs::{FileTypeExt as _, PermissionsExt as _};
use std::path::{Path, PathBuf};

use tokio::net::{UnixListener, UnixStream};

/// Why there is no socket.
#[derive(Debug, thiserror::Error)]
pub enum SocketError {
    /// Someone listens there.
    #[error("another supervisor serves on {}\nhint: stop it first, or set listen.socket", path.display())]
    Taken {
        /// The socket.
        path: PathBuf,
    },
    /// Something else is there.
    #[error("{} is there and is no socket\nhint: set listen.socket to another path", path.display())]
    NotASocket {
        /// The path.
        path: PathBuf,
    },
    /// The group does not exist.
    #[error("there is no group {group}\nhint: make it with `groupadd`, or change listen.socket_group")]
    Group {
        /// Its name.
        group: String,
    },
    /// The kernel said no.
    #[error("cannot listen on {}", path.display())]
    Io {
        /// The socket.
        path: PathBuf,
        /// Why.
        #[source]
        source: io::Error,
    },
}

/// A socket that is removed when the supervisor ends.
#[derive(Debug)]
pub(super) struct Socket {
    pub listener: UnixListener,
    _file: SocketFile,
}

#[derive(Debug)]
struct SocketFile(PathBuf);

impl Drop for SocketFile {
    fn drop(&mut self) {
        let _ = fs::remove_file(&self.0);
    }
}

/// Listens. The socket gets its permissions under another name, before anyone can find it.
pub(super) async fn listen(path: &Path, mode: u32, group: Option<&str>) -> Result<Socket, SocketError> {
    let failed = |source| SocketError::Io { path: path.to_owned(), source };
    let gid = match group {
        Some(name) => match nix::unistd::Group::from_name(name) {
            Ok(Some(group)) => Some(group.gid.as_raw()),
            _ => return Err(SocketError::Group { group: name.to_owned() }),
        },
        None => None,
    };
    if let Some(dir) = path.parent() {
        fs::create_dir_all(dir).map_err(failed)?;
    }
    match fs::symlink_metadata(path) {
        Ok(facts) if !facts.file_type().is_socket() => {
            return Err(SocketError::NotASocket { path: path.to_owned() });
        }
        Ok(_) if UnixStream::connect(path).await.is_ok() => {
            return Err(SocketError::Taken { path: path.to_owned() });
        }
        Ok(_) => {}
        Err(error) if error.kind() == io::ErrorKind::NotFound => {}
        Err(error) => return Err(failed(error)),
    }
    let mut name = path.file_name().unwrap_or_default().to_owned();
    name.push(".new");
    let aside = path.with_file_name(name);
    match fs::remove_file(&aside) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(failed(error)),
        _ => {}
    }
    let listener = UnixListener::bind(&aside).map_err(failed)?;
    fs::set_permissions(&aside, Permissions::from_mode(mode)).map_err(failed)?;
    if gid.is_some() {
        std::os::unix::fs::chown(&aside, None, gid).map_err(failed)?;
    }
    fs::rename(&aside, path).map_err(failed)?;
    Ok(Socket { listener, _file: SocketFile(path.to_owned()) })
}

#[cfg(test)]
mod tests {
    //! Whose socket it is.

    use super::*;

    #[tokio::test]
    async fn a_dead_supervisors_socket_is_taken_over_and_a_live_ones_is_not() {
        let dir = tempfile::tempdir().expect("a directory");
        let path = dir.path().join("deep/rekindle.sock");
        let first = listen(&path, 0o600, None).await.expect("listens");
        let mode = fs::metadata(&path).expect("there").permissions().mode() & 0o777;
        assert_eq!(mode, 0o600);
        assert!(matches!(listen(&path, 0o600, None).await, Err(SocketError::Taken { .. })));
        // As after a SIGKILL: the file stays, nobody listens.
        let Socket { listener, _file } = first;
        drop(listener);
        std::mem::forget(_file);
        let second = listen(&path, 0o660, None).await.expect("takes over");
        drop(second);
        assert!(!path.exists());
    }

    #[tokio::test]
    async fn a_file_that_is_no_socket_is_left_alone() {
        let dir = tempfile::tempdir().expect("a directory");
        let path = dir.path().join("precious");
        fs::write(&path, "x").expect("written");
        assert!(matches!(listen(&path, 0o600, None).await, Err(SocketError::NotASocket { .. })));
        assert_eq!(fs::read(&path).expect("there"), b"x");
        let error =
            listen(&dir.path().join("s"), 0o660, Some("no-such-group-here")).await.expect_err("no group");
        assert!(error.to_string().contains("hint:"), "{error}");
    }
}
