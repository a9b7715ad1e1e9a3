//! A thread of its own for the bytes of connections.
//!
//! What a transfer at full speed has to do never ends, and every turn of it would come between the steps of an
//! execution. The kernel shares the processors out between the two threads, and where there are several, uses them.

use std::io;

use tokio::runtime::{Builder, Handle};

/// Enough for what a connection does, and little to find again after a restore.
const STACK: usize = 512 * 1024;

/// Starts it. It has an event loop, and runs for as long as the agent does.
///
/// # Errors
/// When the kernel refuses an event loop or a thread.
pub(super) fn start(begin: fn()) -> io::Result<Handle> {
    let runtime = Builder::new_current_thread().enable_all().build()?;
    let handle = runtime.handle().clone();
    std::thread::Builder::new().name("connections".to_owned()).stack_size(STACK).spawn(move || {
        begin();
        runtime.block_on(std::future::pending::<()>());
    })?;
    Ok(handle)
}
