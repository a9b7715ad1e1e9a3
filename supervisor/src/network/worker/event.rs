//! What the worker tells of one connection, on its own socket.

use serde::{Deserialize, Serialize};

use crate::network::denial::Denial;
use crate::network::journal::ConnectionState;

/// Something that happened to a connection.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case", deny_unknown_fields)]
pub(super) enum Event {
    /// The guest says which execution it belongs to.
    Claimed { execution: u64 },
    /// It was decided about.
    Decided { host: String, port: u16, policy: String, state: ConnectionState },
    /// So many bytes have moved in all.
    Moved { up: u64, down: u64 },
    /// One that was let through has ended.
    Closed { denial: Option<Denial> },
    /// A request of plain HTTP was let through.
    Request,
    /// What became of a request to the gateway.
    Gateway { service: String, outcome: String, cost: u64 },
    /// Something went wrong with a cassette.
    CassetteTrouble { cassette: String, host: String, why: String },
    /// Nothing follows.
    Ended,
}
