//! How the gateway gets into the worker: what the supervisor has read there as files and variables, and what a sandbox was
//! granted. Holds secrets, so that nothing here has a debug form.

use std::collections::{BTreeMap, HashMap};
use std::sync::atomic::AtomicU64;
use std::sync::{Arc, Mutex};

use serde::{Deserialize, Serialize};
use tokio::sync::watch;

use super::budget::CostBudget;
use super::credential::Credential;
use super::grant::{Gateway, Granted, Grants, split};
use super::purse::{Allowance, DayCost, Purse};
use super::service::{self, OpenError};
use super::spec::ServiceSpec;
use super::token::TokenDigest;
use super::upstream::native;
use crate::network::certificates::{decode, encode};

/// The services, with all that they need.
#[derive(Serialize, Deserialize, Default)]
#[serde(deny_unknown_fields)]
pub(in crate::network) struct GatewaySetup {
    services: BTreeMap<String, ServiceSetup>,
    /// Certificates that the host trusts, where a service trusts those.
    native: Vec<String>,
}

#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct ServiceSetup {
    spec: ServiceSpec,
    secret: Option<String>,
    ca: Option<Vec<String>>,
}

/// What a sandbox may ask for, and has spent.
#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(in crate::network) struct GrantSetup {
    token: [u8; 32],
    operations: Vec<String>,
    most: Option<u64>,
    spent: u64,
    requests: u64,
    /// Its tenant's purse, what was spent out of it, and what the sandbox may take.
    purse: u64,
    day: DayCost,
    allowance: Allowance,
}

/// In the worker: what tenants spend, by the supervisor's numbers of their purses.
pub(in crate::network) type Purses = HashMap<u64, Arc<Purse>>;

impl Gateway {
    /// What the worker needs to make requests.
    pub(in crate::network) fn hand_over(&self) -> GatewaySetup {
        let mut secrets = self.secrets();
        let services = self.services.iter().map(|(name, service)| {
            let ca = service.upstream.ca.as_deref().map(encode);
            (name.clone(), ServiceSetup { spec: service.spec.clone(), secret: secrets.remove(name), ca })
        });
        let native = match self.services.values().any(|service| service.upstream.is_native()) {
            true => encode(&native()),
            false => Vec::new(),
        };
        GatewaySetup { services: services.collect(), native }
    }

    /// In the worker: the services as they were handed over.
    pub(in crate::network) fn receive(setup: &GatewaySetup) -> Result<Self, OpenError> {
        let specs = setup.services.iter().map(|(name, service)| (name.clone(), service.spec.clone()));
        let mut services = BTreeMap::new();
        for (name, plan) in service::check(&specs.collect())? {
            let given = setup.services.get(&name);
            let secret = given.and_then(|service| service.secret.as_deref());
            let ca = given.and_then(|service| service.ca.as_deref()).map(decode);
            let service = plan.given(&name, secret, ca, || decode(&setup.native))?;
            services.insert(name, Arc::new(service));
        }
        Ok(Self::of(services))
    }

    /// The secrets in force, by service.
    pub(in crate::network) fn secrets(&self) -> BTreeMap<String, String> {
        let secret = |credential: &Credential| {
            // Made of text.
            String::from_utf8(credential.secret().bare.clone()).unwrap_or_default()
        };
        let with = |(name, credential): (&String, &Arc<Credential>)| (name.clone(), secret(credential));
        let services = self.services.iter();
        services.filter_map(|(name, service)| Some((name, service.credential.as_ref()?))).map(with).collect()
    }

    /// In the worker: secrets that have changed.
    pub(in crate::network) fn set_secrets(&self, secrets: &BTreeMap<String, String>) {
        for (name, secret) in secrets {
            let credential = self.services.get(name).and_then(|service| service.credential.as_ref());
            // The supervisor has checked it; if it is no good all the same, the old one counts.
            if let Some(Err(error)) = credential.map(|credential| credential.give(secret)) {
                tracing::error!(service = name, %error, "a credential cannot be used; the old one counts");
            }
        }
    }

    /// Sees secrets change.
    pub(in crate::network) fn changes(&self) -> watch::Receiver<u64> {
        self.changes.subscribe()
    }

    /// In the worker: what a sandbox was granted. Of what there is no service for, nothing.
    pub(in crate::network) fn granted(&self, setup: &GrantSetup, purses: &mut Purses) -> Grants {
        // One that is known has been told of all that was spent since.
        let purse = purses.entry(setup.purse).or_insert_with(|| Arc::new(Purse::after(setup.day)));
        let mut services: BTreeMap<String, Granted> = BTreeMap::new();
        for asked in &setup.operations {
            if let Ok((service, operation)) = split(asked)
                && let Some(found) = self.services.get(service)
            {
                let granted = services.entry(service.to_owned()).or_insert_with(|| Granted::new(found));
                granted.operations.insert(operation.to_owned());
            }
        }
        Grants {
            token: TokenDigest(setup.token),
            services,
            budget: CostBudget::resume(setup.most, setup.spent),
            requests: AtomicU64::new(setup.requests),
            purse: Arc::clone(purse),
            allowance: setup.allowance,
            last_day: Mutex::default(),
        }
    }
}

impl Grants {
    /// What the worker needs to hold a sandbox to them.
    pub(in crate::network) fn hand_over(&self) -> GrantSetup {
        GrantSetup {
            token: self.token.0,
            operations: self.operations(),
            most: self.budget(),
            spent: self.cost(),
            requests: self.requests(),
            purse: self.purse.number,
            day: self.purse.last_day(),
            allowance: self.allowance,
        }
    }
}
