//! What every way in shares: who may connect, who calls, how long a call goes on, and what is written down of it.
//!
//! ```text
//! incoming ──▶ connection (a place, a deadline, perhaps TLS) ──▶ authenticate ──▶ call_record ──▶ service
//! ```
//!
//! Used by `grpc` and `http`, which know what is spoken on a connection; nothing here does.

mod access;
mod authenticate;
mod call_record;
mod connection;
mod handler;
mod incoming;
pub(crate) mod origin;
mod places;
mod ports;
mod refusals;
mod revoke;
mod tls;

pub(crate) use access::{Purpose, looks_like_one as looks_like_access_token};
pub use authenticate::Authenticator;
pub(crate) use authenticate::{Admitted, Refused};
pub(crate) use call_record::{CallContext, CallRecord};
pub(crate) use connection::{Connection, ConnectionInfo, Informed};
pub use connection::{ConnectionLimits, Peer};
pub use handler::Handler;
pub(crate) use incoming::incoming;
pub(crate) use places::Places;
pub(crate) use ports::{PortsAt, SandboxPorts};
pub(crate) use revoke::{RevocableBody, Standing};
pub(crate) use tls::TlsConnection;
pub use tls::{Tls, TlsError, TlsFiles};
