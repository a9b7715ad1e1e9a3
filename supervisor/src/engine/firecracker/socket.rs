//! Connects to a socket in a directory that the monitor may write to.
//!
//! A monitor that somebody has taken over can put anything in the place of its sockets. What is a link would be
//! followed outside of the jail, with the supervisor's rights, to whatever listens on the host: so it is looked at
//! before it is connected to, and what was looked at is what is connected to.

use std::fs::OpenOptions;
use std::io;
use std::os::fd::AsRawFd;
use std::os::unix::fs::{FileTypeExt, OpenOptionsExt};
use std::path::{Path, PathBuf};

use tokio::net::UnixStream;

/// Connects to the socket at `path`, if it is one.
pub(super) async fn connect(path: &Path) -> io::Result<UnixStream> {
    // Of a path alone no pipe is waited for and no device is opened.
    let found = OpenOptions::new().read(true).custom_flags(libc::O_PATH | libc::O_NOFOLLOW).open(path)?;
    if !found.metadata()?.file_type().is_socket() {
        return Err(io::Error::new(io::ErrorKind::InvalidInput, "what the monitor put there is no socket"));
    }
    let same = PathBuf::from(format!("/proc/self/fd/{}", found.as_raw_fd()));
    UnixStream::connect(same).await
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::os::unix::fs::symlink;

    use nix::sys::stat::Mode;
    use nix::unistd::mkfifo;
    use tokio::net::UnixListener;

    use super::*;

    #[tokio::test]
    async fn only_a_socket_is_connected_to_and_what_a_monitor_puts_in_its_place_is_not() {
        let jail = tempfile::tempdir().expect("a directory");
        let host = tempfile::tempdir().expect("a directory");
        let elsewhere = host.path().join("host.sock");
        let on_the_host = UnixListener::bind(&elsewhere).expect("bound");
        let path = jail.path().join("agent.sock");
        let monitor = UnixListener::bind(&path).expect("bound");
        connect(&path).await.expect("its own socket");
        monitor.accept().await.expect("connected");
        fs::remove_file(&path).expect("removed");

        let not_found = connect(&path).await.expect_err("gone");
        assert_eq!(not_found.kind(), io::ErrorKind::NotFound, "a start waits for this one");
        symlink(&elsewhere, &path).expect("linked");
        connect(&path).await.expect_err("a link out of the jail");
        fs::remove_file(&path).expect("removed");
        symlink("/proc/self/root", &path).expect("linked");
        connect(&path).await.expect_err("a link into the host");
        fs::remove_file(&path).expect("removed");
        mkfifo(&path, Mode::S_IRWXU).expect("a pipe");
        connect(&path).await.expect_err("a pipe that nobody opens");
        fs::remove_file(&path).expect("removed");
        fs::write(&path, "a file").expect("written");
        connect(&path).await.expect_err("a file");
        fs::remove_file(&path).expect("removed");
        fs::create_dir(&path).expect("made");
        connect(&path).await.expect_err("a directory");

        let accepted = tokio::time::timeout(std::time::Duration::from_millis(50), on_the_host.accept()).await;
        assert!(accepted.is_err(), "nobody has come out of the jail");
    }
}
