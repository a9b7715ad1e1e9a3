//! The supervisor's side of the agent channel: a typed client for the agent inside one guest.
//!
//! Called by `vm`, which dials the byte stream and hands it to [`AgentClient::connect`]. This folder never
//! learns which engine carries the stream, and it never believes a guest: every reply is bounded, checked and
//! turned into the types below, or becomes an [`AgentError`]. One file per operation, the short
//! ones in `calls`; `docs/agent-protocol.md` describes what travels.

mod bulk;
mod calls;
mod client;
mod clock;
mod connect;
mod digest;
mod download;
mod error;
mod execute;
mod file;
mod finished;
mod hello;
mod list;
mod metadata;
mod mkdir;
mod operation;
mod path;
mod patience;
mod port;
mod remove;
mod rename;
mod stat;
mod stdin;
mod upload;
mod user;
mod watch;

#[cfg(test)]
mod fake;

pub use bulk::BulkStream;
pub use calls::Pong;
pub use client::AgentClient;
pub use clock::{ExecutionClock, InvalidClock};
pub use digest::Digest;
pub use download::Downloaded;
pub use error::{AgentError, ConnectError, Refusal};
pub use execute::{Event, Execution, SpillPaths, Started};
pub use file::{FileInfo, FileKind, permissions};
pub use finished::{
    Diagnosis, DiagnosisKind, Finished, GuessLanguage, Interpreter, Outcome, Output, OutputStream, Usage,
};
pub use hello::{Capabilities, Hello, KillScope, ProtocolVersion};
pub use list::Listing;
pub use metadata::FileMetadata;
pub use mkdir::MkdirOptions;
pub use path::{GuestPath, InvalidPath};
pub use patience::{ExecutePatience, TransferPatience};
pub use port::PortStream;
pub use stdin::{StdinClosed, StdinWriter};
pub use upload::UploadOptions;
pub use user::{GuestUser, UnknownUser, UserPath};
pub use watch::{FileEvent, FileEventKind, Watcher};

pub use rekindle_protocol::metadata::InvalidMetadata;

/// Requests are written in the protocol's own words: they come from the host, which is trusted.
pub use rekindle_protocol::wire::{
    Code, Command, EnvVar, ExecuteRequest, Language, RestoreRequest, SandboxLimits, Scratch, Stdin,
    TerminalSize, WarmPython, WarmRequest, execute_request::Program,
};
