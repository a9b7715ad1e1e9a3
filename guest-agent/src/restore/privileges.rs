//! Whether programs may become root by executing one that changes its user, such as sudo.

use std::io;
use std::sync::atomic::{AtomicBool, Ordering};

use nix::mount::{MsFlags, mount};

/// What is in force. A guest boots with what its image has.
static ALLOWED: AtomicBool = AtomicBool::new(true);

/// Allows it or not, from the next execution on. To be called where the agent is the guest's first process: the root is
/// the guest's own then.
///
/// # Errors
/// When the kernel refuses.
pub fn allow_root(allowed: bool) -> io::Result<()> {
    if ALLOWED.load(Ordering::Relaxed) == allowed {
        return Ok(());
    }
    let nosuid = if allowed { MsFlags::empty() } else { MsFlags::MS_NOSUID };
    let none = None::<&str>;
    // Of the mount alone: the file system below it stays as it is.
    mount(none, "/", none, MsFlags::MS_REMOUNT | MsFlags::MS_BIND | nosuid, none)?;
    ALLOWED.store(allowed, Ordering::Relaxed);
    Ok(())
}
