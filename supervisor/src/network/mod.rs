//! What a sandbox may reach outside of it: policies, and the checks that a connection passes before the host dials.
//!
//! A leaf: `service` chooses a policy for a sandbox and hands over the connections its guest asks for. Everything here
//! takes the guest for hostile: the name it claims counts for nothing but to find a rule, and what is then dialled, and
//! what the client says first, must fit that rule. Nothing here knows sandboxes, tenants or engines.
//!
//! In the order of a connection: `name` reads the name, `policy` finds the rule (`presets` has ready ones),
//! `client_hello` or `requests` hold the client's own words against it, `dial` looks the name up and connects to what
//! `address` lets through, `relay` moves the bytes, `traffic` counts and paces them, and `denial` says no in the client's
//! protocol. `connection` is all of it in order, `gate` the connections of one sandbox under the policy in force,
//! `journal` what is remembered of them, `egress` the policies of a host, `in_force` what a change of one means for them,
//! `worker` the process in which all of this runs but the journal. `intercept` serves connections whose requests are
//! read, and `cassette` keeps what they were. `gateway` serves the names below
//! `gateway.internal`, which no policy is asked about.

pub mod address;
pub mod cassette;
mod certificates;
pub mod client_hello;
pub mod connection;
pub mod denial;
pub mod dial;
pub mod egress;
pub mod gate;
pub mod gateway;
mod http_client;
mod in_force;
pub mod intercept;
pub mod journal;
pub mod name;
pub mod policy;
pub mod presets;
mod relay;
pub mod requests;
pub mod summary;
mod to_gateway;
mod traffic;
mod verdict;
pub mod worker;

pub use address::{Forbidden, screen};
pub use cassette::{CassetteError, CassetteName, Cassettes};
pub use client_hello::{ClientHello, ClientHelloReader, HelloError};
pub use denial::{Denial, DenialReason};
pub use dial::{DialError, Dialer, Resolve, SystemResolver};
pub use egress::{Egress, InvalidNetwork};
pub use gate::Gate;
pub use gateway::{
    Allowance, DayCost, Gateway, GatewayToken, GrantError, GrantRequest, Grants, Purse, ServiceSpec,
};
pub use intercept::Interception;
pub use journal::{ConnectionState, ConnectionView, GatewayRequest, Journal, Observe};
pub use name::{HostName, InvalidName, NamePattern};
pub use policy::{Access, Budget, InvalidPolicy, Policy, PolicySpec, Protocol, Rule, RuleSpec, Tape, Target};
pub use requests::{RequestError, Requests};
pub use summary::NetworkSummary;
pub use traffic::Sums;
pub use worker::{Worker, WorkerError, WorkerOptions};
