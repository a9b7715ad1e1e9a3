//! Removes the laboratory's directory and ends its servers when this process is gone.
//!
//! Test programs have no last line to clean up in, and some are killed. A shell waits for the end of a pipe
//! that only this process holds, and then does it.

use std::path::Path;
use std::process::{Child, Command, Stdio};

/// Starts the shell. The pipe it waits on closes with this process, not before: keep the child.
///
/// # Panics
/// When there is no shell.
pub fn after_this_process_remove(dir: &Path) -> Child {
    Command::new("sh")
        // A second try, for monitors that needed a moment to die.
        .args(["-c", r#"read -r _; rm -rf "$0" 2>/dev/null || { sleep 2; rm -rf "$0"; }"#])
        .arg(dir)
        .stdin(Stdio::piped())
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .spawn()
        .expect("a shell")
}

/// Starts a shell that kills a child of this process. End it when the child has: numbers are used again.
///
/// # Panics
/// When there is no shell.
pub fn after_this_process_kill(pid: u32) -> Child {
    Command::new("sh")
        .args(["-c", r#"read -r _; kill -9 "$0""#])
        .arg(pid.to_string())
        .stdin(Stdio::piped())
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .spawn()
        .expect("a shell")
}
