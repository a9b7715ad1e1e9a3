//! The process in which what guests say is read and the outside is dialled: without privileges, with a user of its own.
//!
//! ```text
//!  supervisor                                              worker (another user, no capabilities)
//!  ──────────                                              ──────
//!  keeper ──── orders: services, gates, policies ────────► process
//!     └─────── a socket for each connection ─────────────►    └── connection, gateway, dial
//!  carry  ◄─── bytes and events of one connection ───────► teller
//! ```
//!
//! The supervisor starts the worker, hands it a socket for every stream that a guest opens, and moves bytes between the
//! two without looking at them. The worker decides; it tells what became of a connection on the socket of that
//! connection, before the bytes that follow from it, so that whoever sees those finds it in the journal. The journal, the
//! sums and the observers stay in the supervisor. What the worker says is held to bounds: it may lie about what its
//! connections did, and about nothing else.
//!
//! A worker that ends takes its connections with it. Until there is another, connections are reset; the next one is told
//! the policy of a sandbox, and what that has spent, with the first connection.
//!
//! `order` is what the supervisor says, `event` what the worker does, `control` and `frames` how, `teller` and `guest` the
//! worker's end of a connection, `carry` and `heard` the supervisor's, `process` the worker, `keeper` who starts it,
//! `running` what it was told, `user` whom it becomes.

mod carry;
mod control;
mod event;
mod frames;
mod guest;
mod heard;
mod keeper;
mod order;
mod process;
mod running;
mod teller;
mod user;

pub use keeper::{Worker, WorkerError, WorkerOptions};
pub use process::{ProcessError, run};

pub(super) use carry::carry;
pub(super) use keeper::{GateSource, Via};
pub(super) use teller::Teller;
pub(super) use user::group;
