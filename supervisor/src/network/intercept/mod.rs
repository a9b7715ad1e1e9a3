//! Connections whose requests are read: for rules that record, and for policies that answer from a cassette.
//!
//! ```text
//!   guest ──TLS by the sandbox's authority──► requests, held to their host ──► record: server, over TLS ──► cassette
//!         ◄──────────────── answers ◄──────────────────────────────────────◄── replay: cassette
//! ```
//!
//! No other connection is touched. The authority is the sandbox's own: its key is made for the sandbox, stays in the
//! supervisor and its worker and ends with the gate, and no other sandbox trusts it. In replay nothing is looked up and nobody is dialled.
//!
//! `authority` signs, `interception` is what one sandbox has of all this, `serve` one connection from its first bytes
//! to its end, `exchange` one request on it, `upstream` the server, `body` what is counted and recorded as it passes,
//! `headers` which headers go where, `rewound` a stream with its first bytes again. Called by `connection`.

mod authority;
mod body;
mod exchange;
mod headers;
mod interception;
mod rewound;
mod serve;
mod upstream;

pub use authority::AuthorityError;
pub use interception::{CA_FILE, CA_VARIABLES, Interception};

pub(super) use authority::AuthoritySetup;
pub(super) use interception::Trust;

#[cfg(test)]
mod tests;
