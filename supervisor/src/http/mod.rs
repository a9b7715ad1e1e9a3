//! The second face: HTTP as the SDKs of E2B speak it, so that they work unmodified against this supervisor, and our own
//! API in JSON.
//!
//! ```text
//! connection ──▶ front: what is it for? ──▶ control (sandboxes: made, listed, ended) ──▶ service
//!  HTTP/1.1, h2                     ├─────▶ envd (one sandbox's programs and files) ──▶ service
//!                                   ├─────▶ interpreter (its contexts, and code in them) ──▶ service
//!                                   ├─────▶ port (what its programs serve) ──▶ service, then bytes
//!                                   └─────▶ api (`rekindle.v1` in JSON) ──▶ the handler of the API
//! ```
//!
//! Started by `rekindle serve` where `http.listen` is set. Who connects and who calls is decided as for gRPC, by
//! `door`; here is what is spoken, and nothing about sandboxes is decided.

mod activity;
mod api;
mod body;
mod connect;
mod control;
mod envd;
mod front;
mod interpreter;
mod key;
mod port;
mod query;
mod refusal;
mod server;

pub use api::Api;
pub(crate) use api::there_and_back;
pub(crate) use connect::decode as decode_frames;
pub use front::{Front, FrontOptions};
pub use server::{HttpError, HttpHandle, HttpListener, HttpServer};
