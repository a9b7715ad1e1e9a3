//! What the supervisor tells the worker, and what that answers. Nothing of it is ever shown: there are secrets in it.

use std::collections::BTreeMap;
use std::net::SocketAddr;

use serde::{Deserialize, Serialize};

use crate::network::gateway::{GatewaySetup, GrantSetup};
use crate::network::intercept::AuthoritySetup;
use crate::network::name::HostName;
use crate::network::policy::Policy;
use crate::network::traffic::Spending;

/// Something to do.
#[derive(Serialize, Deserialize)]
#[serde(rename_all = "snake_case", deny_unknown_fields)]
pub(super) enum Order {
    /// First of all: how names are dialled, and the services of the gateway with their secrets. Where requests are
    /// recorded or replayed, whom servers are believed by then; the directory of cassettes comes with this.
    Setup { hosts: Vec<(HostName, SocketAddr)>, gateway: GatewaySetup, trusted: Option<Vec<String>> },
    /// Secrets of services that have changed.
    Secrets { secrets: BTreeMap<String, String> },
    /// The network of a sandbox.
    Gate { gate: u64, setup: Box<GateSetup> },
    /// Another policy of it, which is answered.
    Policy { gate: u64, policy: Policy, number: u64 },
    /// A connection of it. Its socket comes with this.
    Stream { gate: u64 },
    /// It stands still: all its connections end.
    Cut { gate: u64 },
    /// It is over, and so are its connections.
    Forget { gate: u64 },
}

/// What is known of a sandbox.
#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct GateSetup {
    pub(super) policy: Policy,
    pub(super) spending: Spending,
    pub(super) grants: Option<GrantSetup>,
    /// Where requests are read.
    pub(super) authority: Option<AuthoritySetup>,
}

/// What the worker answers.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case", deny_unknown_fields)]
pub(super) enum Answer {
    /// It was set up.
    Ready,
    /// A policy is in force.
    Enforced { number: u64 },
}
