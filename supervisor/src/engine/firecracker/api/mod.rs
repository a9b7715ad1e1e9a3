//! Firecracker's control interface: HTTP/1 with JSON bodies over a unix socket.
//!
//! `models` are the bodies, as far as this engine sends them; `client` sends them over one connection
//! that is kept alive; `error` carries Firecracker's own words.

mod client;
mod error;
pub mod models;

#[cfg(test)]
mod tests;

pub use client::Api;
pub(crate) use client::fault;
pub use error::ApiError;
