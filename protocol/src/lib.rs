//! The words the supervisor and the in-guest agent speak, and how they travel over one byte stream.
//!
//! Used by the agent (`guest-agent`) and by the supervisor's client (`supervisor/src/agent`). It knows
//! nothing of virtual machines, processes or files, and does no I/O but on the stream it is given.
//!
//! From the bottom up: [`preamble`] begins a session on a dirty byte stream, [`mux`] splits it
//! into streams, [`frame`] carries one message, [`piece`] makes one of a file's bytes where they lie, [`wire`] is
//! the messages. [`output`] is the one rule by which output is shortened, [`checksum`] how transfers are checked,
//! [`metadata`] what may be noted at a file, [`clock`] what the clock of an execution may be, [`failure`] what
//! an error of a language means, [`limits`] every bound.

#![forbid(unsafe_code)]

pub mod checksum;
pub mod clock;
pub mod failure;
pub mod frame;
#[doc(hidden)]
pub mod fuzzing;
pub mod limits;
pub mod metadata;
pub mod mux;
pub mod output;
pub mod piece;
pub mod preamble;

/// The messages, generated from `proto/rekindle/agent/v1/agent.proto`.
#[allow(missing_docs, clippy::all)]
pub mod wire {
    include!(concat!(env!("OUT_DIR"), "/rekindle.agent.v1.rs"));
}

/// The protocol version both sides of this build speak. Peers must agree on `major`.
pub const VERSION: wire::Version = wire::Version { major: 3, minor: 11 };
