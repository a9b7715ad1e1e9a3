//! The supervisor's face: `rekindle.v1` over gRPC, on a unix socket and, with TLS and tokens, on TCP.
//!
//! ```text
//! connection ──▶ admit (who calls, on the headers) ──▶ service ──▶ status (why not, from one table)
//!  bounded         audited                                           typed details
//! ```
//!
//! Started by `rekindle serve`. Only this folder knows tonic and the messages of the API; it decides nothing
//! about sandboxes.

mod admit;
mod beside;
mod call_record;
mod code_result;
mod connected;
mod deadline;
mod executions;
mod files;
mod host;
mod interpreter;
mod live;
mod messages;
mod network;
mod requests;
mod sandboxes;
mod server;
mod socket;
mod status;
mod transfer;

pub use host::HostFacts;
pub use messages::execute_response;
pub use requests::execute_spec;
pub use server::{Listeners, ServeError, Server, ServerHandle, ServerOptions};
pub use socket::SocketError;
