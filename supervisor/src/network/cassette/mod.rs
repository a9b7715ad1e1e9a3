//! Cassettes: requests and their answers, recorded once and given again without a network.
//!
//! ```text
//!   <data>/cassettes/<name>/index.jsonl     one line per exchange, in the order of their ends
//!                          /blobs/<sha256>  bodies of answers, each once
//!                          /lock            held while the index is written
//! ```
//!
//! A body is on the disk before the line that names it, so a crash leaves at most a body that nobody names, or a torn last
//! line, which is not read and is cut off before the next one is written. No credential is ever written: of a request
//! nothing is kept but what finds its answer, and of an answer's headers not those that open sessions.
//!
//! `name` and `entry` are what is written, `index` reads it, `record` adds to it, `replay` is one sandbox's way through
//! it, `store` the cassettes of a host, and `access` who may write them. Used by `intercept` and by `rekindle cassette`.

mod access;
mod entry;
mod index;
mod name;
mod record;
mod replay;
mod store;

pub use entry::{Entry, Key, digest_of};
pub use name::{CassetteName, InvalidCassetteName};
pub use store::{CassetteError, CassetteSummary, Cassettes};

#[cfg(test)]
pub(super) use record::Limits;
pub(super) use record::{NotRecorded, Part};
pub(super) use replay::Replay;

#[cfg(test)]
mod tests;
