//! QEMU's control channel: JSON lines with replies, errors and events.
//!
//! The monitor on the other side may be under its guest's control, so every line is bounded and parsed
//! as untrusted input. Used by this engine's verbs.

mod client;
mod error;
mod wire;

#[cfg(test)]
mod tests;

pub use client::{Qmp, Subscription};
pub use error::QmpError;
pub use wire::Event;
pub(crate) use wire::Incoming;
