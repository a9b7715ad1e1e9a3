//! The gateway: programs in a sandbox call `http://<service>.gateway.internal`, and the host makes the request to the
//! outside with the operator's credential. No secret is ever inside the machine.
//!
//! A name below `gateway.internal` is never looked up. A connection to one carries exactly one request, so every request
//! is a connection of the journal's, with the operation that let it through as its rule.
//!
//! In the order of a request: `token` says whether a program of this very sandbox asks, `operation` finds what it asks
//! for, `grant` whether the sandbox may, `budget` whether it still may, `purse` whether its tenant may, `upstream` connects, `headers` decides what
//! goes on in either direction, `credential` is put in, and `scrub` takes it out of what comes back. `serve` is all of
//! it in order. `spec` is what an operator writes, `service` the same once it was checked, `handover` how it gets into the
//! worker.
//!
//! Called by `connection` with a stream and by `service` for grants. It knows no sandbox and no journal: it is given a
//! stream of bytes and says what became of it. It runs in the network's worker; grants are made in the supervisor.

mod budget;
mod credential;
mod grant;
mod handover;
mod headers;
mod operation;
mod purse;
mod scrub;
mod serve;
mod service;
mod spec;
mod token;
mod upstream;

pub use credential::CredentialError;
pub use grant::{Gateway, GrantError, GrantRequest, Grants};
pub use operation::is_path_of;
pub use purse::{Allowance, DayCost, Purse, today};
pub use service::{InvalidGateway, InvalidService, OpenError};
pub use spec::{CredentialSpec, OperationSpec, ServiceSpec};
pub use token::{GatewayToken, TOKEN_VARIABLE};

pub(super) use handover::{GatewaySetup, GrantSetup, Purses};
pub(super) use headers::remove_hop_by_hop;
pub(super) use serve::{Report, Session, serve};
pub(super) use upstream::{native, trust};

use super::name::HostName;
use super::policy::Target;

/// What the names of all services are below.
const DOMAIN: &str = "gateway.internal";
/// Where services are found. Nothing on the way needs to be hidden: the host is at the other end of it.
pub(super) const PORT: u16 = 80;

/// The name and the service of a connection to the gateway; `None` for all others.
pub(super) fn asked(target: &Target) -> Option<(&HostName, &str)> {
    match target {
        Target::Name(name) => asked_service(name).map(|service| (name, service)),
        Target::Address(_) => None,
    }
}

/// What a name says to the gateway: a service's name, or something else that is nobody's. `None` for names that are not
/// the gateway's.
fn asked_service(name: &HostName) -> Option<&str> {
    let name = name.as_str();
    if name == DOMAIN {
        return Some("");
    }
    name.strip_suffix(DOMAIN)?.strip_suffix('.')
}

#[cfg(test)]
mod tests;
