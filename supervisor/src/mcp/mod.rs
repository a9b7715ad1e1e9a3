//! The Model Context Protocol: five tools with which a model makes and uses sandboxes, over standard input and output or
//! over streamable HTTP. Called by `rekindle mcp`; `rekindle prompt` prints the same rules as text.
//!
//! A client of the gRPC API like the remote commands, with the rights of whoever shows the token: it knows nothing of the
//! service behind it, and keeps nothing but the ids of the sandboxes that a session over standard input has made.

mod arguments;
mod facts;
mod http;
mod image;
mod line;
mod origin;
mod outcome;
mod packages;
mod page;
mod refusal;
mod rules;
mod server;
mod session;
mod stdio;
mod tools;

pub use self::facts::{Defaults, Facts};
pub use self::http::{HttpError, HttpOptions, serve_http};
pub use self::rules::Rules;
pub use self::server::{Access, Mcp};
pub use self::stdio::{StdioError, serve_stdio};
