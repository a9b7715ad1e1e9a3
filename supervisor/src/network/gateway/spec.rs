//! Services of the gateway as an operator writes them. `service` checks them.

use std::path::PathBuf;

use serde::{Deserialize, Serialize};

/// A service: `[gateway.services.<name>]`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ServiceSpec {
    /// Where it is: `https://` and a name or an address, with a port if need be. An address is the operator's word and
    /// may be private; what a name leads to may not. `http://` is for loopback addresses alone.
    pub upstream: String,
    /// Certificates that sign the upstream's, PEM, instead of those that this host trusts.
    #[serde(default)]
    pub ca: Option<PathBuf>,
    /// What it is called with. Without one it is called with none.
    #[serde(default)]
    pub credential: Option<CredentialSpec>,
    /// What may be asked of it. The first that fits a request counts.
    pub operations: Vec<OperationSpec>,
    /// Requests of one sandbox in a minute; no bound when left out.
    #[serde(default)]
    pub requests_per_minute: Option<u32>,
    /// Seconds until the answer begins, and without a byte of it once it has.
    #[serde(default = "timeout")]
    pub timeout_s: u64,
}

fn timeout() -> u64 {
    600
}

/// A credential. The secret itself is in a file or a variable, never in the configuration.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct CredentialSpec {
    /// The header that carries it.
    #[serde(default = "authorization")]
    pub header: String,
    /// The header's value, with `{}` for the secret.
    #[serde(default = "bearer")]
    pub value: String,
    /// The file with the secret. Read again when it changes.
    #[serde(default)]
    pub file: Option<PathBuf>,
    /// Or the variable of the supervisor's with it.
    #[serde(default)]
    pub env: Option<String>,
}

fn authorization() -> String {
    "authorization".to_owned()
}

fn bearer() -> String {
    "Bearer {}".to_owned()
}

/// An operation.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct OperationSpec {
    /// Its name, as it is granted.
    pub name: String,
    /// The method of its requests.
    pub method: String,
    /// Their path: `/v1/items/{id}`, where `{id}` is one segment, or part of one.
    pub path: String,
    /// Most bytes of a request's body.
    #[serde(default = "max_body_bytes")]
    pub max_body_bytes: u64,
    /// What a request costs, in units of the operator's.
    #[serde(default = "cost")]
    pub cost: u64,
}

fn max_body_bytes() -> u64 {
    1 << 20
}

fn cost() -> u64 {
    1
}
