//! The one place where descriptors are handed to the event loop.

use std::fs::File;
use std::io;
use std::os::fd::{AsRawFd, OwnedFd};
use std::sync::Arc;

use nix::sys::signalfd::SignalFd;
use tokio::io::Interest;
use tokio::io::unix::AsyncFd;

/// A value that owns the descriptor it shows and shows the same one all its life.
pub trait Owns: AsRawFd {}
impl Owns for OwnedFd {}
impl Owns for File {}
impl Owns for Arc<File> {}
impl Owns for SignalFd {}

/// Lets the event loop watch a descriptor for as long as the result lives.
///
/// # Errors
/// When the kernel cannot watch it.
pub fn watch<T: Owns>(descriptor: T, interest: Interest) -> io::Result<AsyncFd<T>> {
    // SAFETY: the types that are `Owns` keep their descriptor open, and unchanged, until they are dropped.
    // JUSTIFICATION: the event loop cannot be given a descriptor of our own in any other way.
    unsafe { AsyncFd::register_with_interest(descriptor, interest) }.map_err(Into::into)
}
