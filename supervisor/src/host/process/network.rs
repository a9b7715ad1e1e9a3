//! Network namespaces with nothing in them, one always made ahead.
//!
//! Making one takes the kernel longer than everything else about a child's start, and it serialises them
//! across the whole machine. So a thread of its own makes the next one while nobody waits. Each is given
//! to one child only and is gone with it. Used by `namespace` and by engines that are set up.

use std::fs::File;
use std::io;
use std::os::fd::OwnedFd;
use std::sync::mpsc::{Receiver, sync_channel};
use std::sync::{Mutex, OnceLock, PoisonError};
use std::thread;

use nix::sched::{CloneFlags, unshare};

/// Has the first one made, so that the first child finds it.
pub(crate) fn prepare() {
    spares();
}

/// A network namespace that nobody else has.
pub(super) fn take() -> io::Result<OwnedFd> {
    let spares = spares().lock().unwrap_or_else(PoisonError::into_inner);
    spares.recv().unwrap_or_else(|_| Err(io::Error::other("the thread that makes networks ended")))
}

fn spares() -> &'static Mutex<Receiver<io::Result<OwnedFd>>> {
    static SPARES: OnceLock<Mutex<Receiver<io::Result<OwnedFd>>>> = OnceLock::new();
    SPARES.get_or_init(|| {
        // Without room in between: one is ready, and the next is made once that is taken.
        let (give, spares) = sync_channel(0);
        thread::Builder::new()
            .name("rekindle-net".into())
            .spawn(move || while give.send(make()).is_ok() {})
            .expect("the operating system can start one thread");
        Mutex::new(spares)
    })
}

/// Leaves this thread in the new one, which does not matter to it.
fn make() -> io::Result<OwnedFd> {
    unshare(CloneFlags::CLONE_NEWNET)?;
    Ok(File::open("/proc/thread-self/ns/net")?.into())
}
