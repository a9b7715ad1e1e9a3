//! The network of a host: its policies, and a gate for every sandbox.
//!
//! `service` and `rekindle run` ask it for a policy by name, and hand the gate the streams that a guest opens.

use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::os::fd::OwnedFd;
use std::sync::Arc;

use super::cassette::{CassetteError, Cassettes};
use super::certificates;
use super::dial::{Dialer, Resolve, SystemResolver};
use super::gate::Gate;
use super::gateway;
use super::intercept::{Interception, Trust};
use super::journal::Observe;
use super::name::{HostName, InvalidName};
use super::policy::{InvalidPolicy, Policy, PolicySpec};
use super::worker::{self, Via, Worker};

/// What is wrong with a host's network.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum InvalidNetwork {
    /// A policy.
    #[error("the network policy {name:?} cannot be used")]
    Policy {
        /// Which.
        name: String,
        /// Why.
        #[source]
        source: InvalidPolicy,
    },
    /// A name that is mapped to an address.
    #[error("{name:?} is not the name of a host")]
    Host {
        /// Which.
        name: String,
        /// Why.
        #[source]
        source: InvalidName,
    },
}

/// The policies that a host offers, and how it dials.
#[derive(Debug, Clone)]
pub struct Egress {
    policies: Arc<BTreeMap<String, Arc<Policy>>>,
    none: Arc<Policy>,
    pub(super) dialer: Dialer,
    worker: Option<Worker>,
    /// Where what policies read is recorded, and whom servers are believed by then.
    cassettes: Option<(Arc<Cassettes>, Arc<Trust>)>,
}

impl Default for Egress {
    /// A host that offers no policy.
    fn default() -> Self {
        Self::with_resolver(BTreeMap::new(), BTreeMap::new(), Arc::new(SystemResolver))
    }
}

impl Egress {
    /// Checks what an operator wrote.
    ///
    /// # Errors
    /// The first thing that is wrong with it.
    pub fn new(
        policies: &BTreeMap<String, PolicySpec>,
        hosts: &BTreeMap<String, SocketAddr>,
    ) -> Result<Self, InvalidNetwork> {
        let policy = |(name, spec): (&String, &PolicySpec)| match Policy::new(name, spec) {
            Ok(policy) => Ok((name.clone(), Arc::new(policy))),
            Err(source) => Err(InvalidNetwork::Policy { name: name.clone(), source }),
        };
        let host = |(name, address): (&String, &SocketAddr)| match HostName::parse(name) {
            Ok(read) => Ok((read, *address)),
            Err(source) => Err(InvalidNetwork::Host { name: name.clone(), source }),
        };
        let policies = policies.iter().map(policy).collect::<Result<_, _>>()?;
        let hosts = hosts.iter().map(host).collect::<Result<_, _>>()?;
        Ok(Self::with_resolver(policies, hosts, Arc::new(SystemResolver)))
    }

    fn with_resolver(
        policies: BTreeMap<String, Arc<Policy>>,
        hosts: BTreeMap<HostName, SocketAddr>,
        resolver: Arc<dyn Resolve>,
    ) -> Self {
        Self {
            policies: Arc::new(policies),
            none: Arc::new(Policy::none()),
            dialer: Dialer::new(resolver, hosts),
            worker: None,
            cassettes: None,
        }
    }

    /// The same with a place for cassettes.
    #[must_use]
    pub fn with_cassettes(self, cassettes: Cassettes) -> Self {
        Self { cassettes: Some((Arc::new(cassettes), Arc::default())), ..self }
    }

    /// That a sandbox can be under this policy: the cassette that it answers from is there.
    ///
    /// # Errors
    /// See [`CassetteError`].
    pub fn require(&self, policy: &Policy) -> Result<(), CassetteError> {
        match (policy.replayed(), &self.cassettes) {
            (None, _) => Ok(()),
            (Some(name), Some((cassettes, _))) => {
                cassettes.require(name)?;
                match self.worker {
                    Some(_) => cassettes.open_to(name, worker::group()),
                    None => Ok(()),
                }
            }
            (Some(name), None) => Err(CassetteError::Missing { name: name.clone() }),
        }
    }

    /// What the worker needs where a policy reads requests: certificates that servers are believed by, and the directory
    /// of cassettes, opened to this group.
    pub(super) fn hand_over(
        &self,
        group: Option<u32>,
    ) -> Result<Option<(Vec<String>, OwnedFd)>, CassetteError> {
        let Some((cassettes, _)) = &self.cassettes else { return Ok(None) };
        if !self.policies().any(|policy| policy.intercepts()) {
            return Ok(None);
        }
        let recorded = self.policies().flat_map(|policy| policy.recorded());
        let directory = cassettes.share(recorded, group)?;
        Ok(Some((certificates::encode(&gateway::native()), directory)))
    }

    /// The same, whose connections a worker serves instead of this process.
    #[must_use]
    pub fn through(self, worker: Worker) -> Self {
        Self { worker: Some(worker), ..self }
    }

    /// A policy by its name; nothing, and `none`, is the one that allows nothing.
    #[must_use]
    pub fn policy(&self, name: &str) -> Option<Arc<Policy>> {
        match name {
            "" | "none" => Some(Arc::clone(&self.none)),
            name => self.policies.get(name).map(Arc::clone),
        }
    }

    /// The policies that have a name of the operator's, by name.
    pub fn policies(&self) -> impl Iterator<Item = &Arc<Policy>> {
        self.policies.values()
    }

    /// The network of a sandbox under this policy. `observer` hears of every connection.
    #[must_use]
    pub fn gate(&self, policy: Arc<Policy>, observer: Option<Arc<dyn Observe>>) -> Gate {
        let interception = self.cassettes.as_ref().filter(|_| policy.intercepts());
        let interception = interception.and_then(|(cassettes, trust)| {
            Interception::new(Arc::clone(cassettes), Arc::clone(trust))
                .inspect_err(|error| tracing::error!(%error, "a sandbox has no authority of its own"))
                .ok()
        });
        let gate = Gate::new(policy, self.dialer.clone(), observer).with_interception(interception);
        gate.through(self.worker.as_ref().map(Via::new))
    }
}

#[cfg(test)]
mod tests {
    //! Which policies there are.

    use super::*;

    #[test]
    fn a_policy_is_found_by_its_name_and_none_is_always_there() {
        let spec: PolicySpec = toml::from_str("mode = \"allow\"\npresets = [\"pypi\"]").unwrap();
        let egress = Egress::new(&[("build".to_owned(), spec)].into(), &BTreeMap::new()).unwrap();
        assert_eq!(egress.policy("build").unwrap().name(), "build");
        for name in ["", "none"] {
            assert_eq!(*egress.policy(name).unwrap(), Policy::none());
            assert_eq!(*Egress::default().policy(name).unwrap(), Policy::none());
        }
        assert!(egress.policy("other").is_none());
    }

    #[test]
    fn what_cannot_be_used_is_named() {
        let bad = Egress::new(
            &[("build".to_owned(), PolicySpec { presets: vec!["x".into()], ..PolicySpec::default() })].into(),
            &BTreeMap::new(),
        );
        assert!(matches!(bad, Err(InvalidNetwork::Policy { name, .. }) if name == "build"));
        let hosts = [("127.0.0.1".to_owned(), "127.0.0.1:1".parse().unwrap())].into();
        assert!(matches!(Egress::new(&BTreeMap::new(), &hosts), Err(InvalidNetwork::Host { .. })));
    }
}
