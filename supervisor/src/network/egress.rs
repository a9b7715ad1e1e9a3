//! The network of a host: its policies, and the streams of one sandbox after another held to one of them.
//!
//! `service` and `rekindle run` ask it for a policy by name and hand it the streams that a guest opens.

use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::sync::Arc;

use tokio::io::{AsyncRead, AsyncWrite};
use tokio::sync::mpsc;
use tokio::task::JoinSet;
use tracing::Instrument as _;

use super::connection::{self, Connection, Outcome};
use super::dial::{Dialer, Resolve, SystemResolver};
use super::name::{HostName, InvalidName};
use super::policy::{InvalidPolicy, Policy, PolicySpec};

/// Connections of one sandbox at once. An agent that keeps to the protocol never has more; others are reset.
const MAX_CONNECTIONS: usize = 128;

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
    dialer: Dialer,
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
        }
    }

    /// A policy by its name; nothing, and `none`, is the one that allows nothing.
    #[must_use]
    pub fn policy(&self, name: &str) -> Option<Arc<Policy>> {
        match name {
            "" | "none" => Some(Arc::clone(&self.none)),
            name => self.policies.get(name).map(Arc::clone),
        }
    }

    /// Holds the connections of one sandbox to a policy, until its session ends. All of them end with this future.
    pub async fn serve<S>(&self, mut streams: mpsc::Receiver<S>, policy: Arc<Policy>)
    where
        S: AsyncRead + AsyncWrite + Unpin + Send + 'static,
    {
        let mut connections = JoinSet::new();
        while let Some(stream) = streams.recv().await {
            while connections.try_join_next().is_some() {}
            if connections.len() >= MAX_CONNECTIONS {
                continue;
            }
            let (policy, dialer) = (Arc::clone(&policy), self.dialer.clone());
            let serve = async move { log(&connection::serve(stream, &policy, &dialer).await) };
            connections.spawn(serve.in_current_span());
        }
    }
}

/// One line for each connection.
fn log(connection: &Connection) {
    let execution = connection.execution;
    match &connection.outcome {
        Outcome::Served { rule, up, down, denied: None } => {
            tracing::info!(execution, rule, up, down, "a connection was let through");
        }
        Outcome::Denied(denial) | Outcome::Served { denied: Some(denial), .. } => {
            tracing::info!(
                execution,
                reason = denial.reason.as_str(),
                host = denial.host,
                port = denial.port,
                policy = denial.policy,
                "a connection was denied"
            );
        }
        Outcome::Failed { host, port, why } => {
            tracing::info!(execution, host, port, why, "a connection failed");
        }
        Outcome::Abandoned => {}
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

    #[tokio::test]
    async fn a_guest_that_opens_streams_without_end_gets_so_many() {
        let (sender, streams) = mpsc::channel(512);
        let mut ends = Vec::new();
        for _ in 0..MAX_CONNECTIONS + 50 {
            let (guest, host) = tokio::io::duplex(64);
            sender.send(host).await.unwrap();
            ends.push(guest);
        }
        let egress = Egress::default();
        let serving = egress.serve(streams, Arc::new(Policy::none()));
        let looking = async {
            use tokio::io::AsyncReadExt as _;
            // Those beyond are closed at once; the others wait for what the guest has to say.
            for guest in &mut ends[MAX_CONNECTIONS..] {
                assert_eq!(guest.read(&mut [0]).await.unwrap(), 0);
            }
        };
        tokio::select! {
            () = serving => panic!("it ended"),
            () = looking => {}
        }
        drop(sender);
    }
}
