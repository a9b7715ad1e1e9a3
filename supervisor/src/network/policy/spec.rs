//! What an operator writes: a policy, its rules and its budget, before anybody has checked them.

use serde::{Deserialize, Serialize};

use super::{InvalidPolicy, Protocol};
use crate::network::cassette::CassetteName;

/// The port of servers for names. Questions are answered in the sandbox; who brings one to the host goes around that.
pub(super) const NAMES: u16 = 53;

/// What is let through at all.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Access {
    /// Nothing.
    #[default]
    None,
    /// What the rules name.
    Allow,
    /// Every public name and address, on every port.
    Full,
    /// What a cassette holds; nothing leaves the host.
    Replay,
}

/// A policy as an operator writes it.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct PolicySpec {
    /// What is let through at all.
    pub mode: Access,
    /// Ready rules, by name.
    pub presets: Vec<String>,
    /// Rules of its own.
    pub allow: Vec<RuleSpec>,
    /// How much may be used.
    pub budget: Budget,
    /// The cassette into which all its rules of `tls` and `http` record.
    pub record: Option<CassetteName>,
    /// The cassette that `replay` answers from.
    pub cassette: Option<CassetteName>,
}

/// Bytes in a second under a policy that is `full` and does not say: 400 Mbit/s.
pub const FULL_BYTES_PER_SECOND: u64 = 50_000_000;
/// Connections at a time under a policy that is `full` and does not say.
pub const FULL_CONNECTIONS_AT_ONCE: u32 = 64;

/// How much of the network one sandbox may use. What is left out has no bound, but for pace and connections at a time
/// where everything is let through: see [`FULL_BYTES_PER_SECOND`] and [`FULL_CONNECTIONS_AT_ONCE`].
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Budget {
    /// Bytes out of the sandbox, in its whole life.
    pub bytes_up: Option<u64>,
    /// Bytes into it.
    pub bytes_down: Option<u64>,
    /// Requests of connections that a rule of the protocol `http` lets through, in its whole life. Those inside TLS
    /// cannot be counted.
    pub requests: Option<u64>,
    /// Connections, in its whole life; those that are denied count too.
    pub connections: Option<u64>,
    /// Connections at a time, at most 128.
    pub connections_at_once: Option<u32>,
    /// Bytes in a second, both directions of all connections together.
    pub bytes_per_second: Option<u64>,
}

impl PolicySpec {
    /// The budget that counts: who may go everywhere never goes without a pace.
    pub(super) fn budget_in_force(&self) -> Budget {
        match self.mode {
            Access::Full => Budget {
                connections_at_once: self.budget.connections_at_once.or(Some(FULL_CONNECTIONS_AT_ONCE)),
                bytes_per_second: self.budget.bytes_per_second.or(Some(FULL_BYTES_PER_SECOND)),
                ..self.budget
            },
            Access::None | Access::Allow | Access::Replay => self.budget,
        }
    }
}

/// A rule as an operator writes it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct RuleSpec {
    /// A name, or `*.name` for all below it.
    pub host: String,
    /// Ports. Without any: 443 for `tls`, 80 for `http`.
    #[serde(default)]
    pub ports: Vec<u16>,
    /// How it is held to the name.
    #[serde(default = "tls")]
    pub protocol: Protocol,
    /// The cassette into which what it lets through is recorded, for `tls` and `http`.
    #[serde(default)]
    pub record: Option<CassetteName>,
}

fn tls() -> Protocol {
    Protocol::Tls
}

impl Budget {
    pub(super) fn check(&self) -> Result<(), InvalidPolicy> {
        let amounts = [
            ("bytes_up", self.bytes_up),
            ("bytes_down", self.bytes_down),
            ("requests", self.requests),
            ("connections", self.connections),
            ("connections_at_once", self.connections_at_once.map(u64::from)),
            ("bytes_per_second", self.bytes_per_second),
        ];
        match amounts.into_iter().find(|(_, amount)| *amount == Some(0)) {
            Some((what, _)) => Err(InvalidPolicy::Zero { what }),
            None => Ok(()),
        }
    }
}
