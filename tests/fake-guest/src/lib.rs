//! A guest without a machine: it answers the agent protocol from memory.
//!
//! For tests on the fake engine, which hands every connection to a function:
//!
//! ```text
//! let guests = Guests::default();
//! let engine = FakeEngine::new(guests.handler());
//! … guests.all()[0].executed() …
//! ```
//!
//! Every connection is a guest of its own, with its own gate, files and executions. It runs no program: what
//! an execution does is said with the few words in [`words`]. It never touches the host. For tests of a host that is
//! lied to there are guests that mean harm ([`Guests::turn_hostile`]).

#![forbid(unsafe_code)]

mod execute;
mod files;
mod guest;
mod hostile;
mod interpreter;
mod paths;
mod reply;
mod session;
mod watch;
pub mod words;

pub use guest::{Guest, Guests, Manner};
