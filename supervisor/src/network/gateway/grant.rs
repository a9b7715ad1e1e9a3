//! What a sandbox may ask of the gateway: operations by name, a token, and a budget. All of it ends with the sandbox.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use tokio::sync::watch;

use super::budget::{CostBudget, CostSpent, Pace};
use super::credential::Credential;
use super::purse::{Allowance, DayCost, Purse, today};
use super::service::{self, InvalidGateway, OpenError, Service};
use super::spec::ServiceSpec;
use super::token::{GatewayToken, TokenDigest};
use crate::config::refresh::Refresh;

/// Most operations that a caller may name.
const MAX_ASKED: usize = 64;
/// Most bytes of one: a service's name, an operation's, and what is between.
const MAX_LENGTH: usize = 127;
/// Most operations that they may stand for.
const MAX_GRANTED: usize = 256;
/// Names that a denial tells, the first ones: many denials are remembered.
const MAX_LISTED: usize = 16;
/// All operations of a service.
const ALL: &str = "*";

/// The services that a host offers.
#[derive(Debug, Clone, Default)]
pub struct Gateway {
    pub(super) services: Arc<BTreeMap<String, Arc<Service>>>,
    /// The most that one sandbox may spend.
    most: Option<u64>,
    /// Changes with every secret that was read again.
    pub(super) changes: watch::Sender<u64>,
    /// Keeps the credentials current.
    _refresh: Option<Arc<Refresh>>,
}

/// What a caller asks for.
#[derive(Debug, Clone, Copy, Default)]
pub struct GrantRequest<'a> {
    /// `service/operation`, or `service/*` for all of a service's.
    pub operations: &'a [String],
    /// What the sandbox may spend; the operator's own bound when it is not said.
    pub budget: Option<u64>,
}

/// Why there is no grant.
#[derive(Debug, thiserror::Error)]
pub enum GrantError {
    /// It is not written as one.
    #[error("{asked:?} is not an operation such as openai/chat or openai/*")]
    Form {
        /// As it was written.
        asked: String,
    },
    /// Too many.
    #[error(
        "more than {MAX_ASKED} operations of the gateway, or more than {MAX_GRANTED} that they stand for"
    )]
    TooMany,
    /// The caller may not use the service.
    #[error("the gateway's service {service:?} is not for this caller")]
    Forbidden {
        /// Which.
        service: String,
    },
    /// There is none.
    #[error("the gateway has no operation {asked}")]
    Unknown {
        /// As it was written.
        asked: String,
    },
    /// More than the operator lets one sandbox spend.
    #[error("the gateway's budget may be at most {most}")]
    Budget {
        /// The most.
        most: u64,
    },
    /// Nothing to spend it on.
    #[error("a budget of the gateway without an operation of it")]
    BudgetAlone,
    /// There are no random bytes.
    #[error("no random bytes for a token")]
    Random(#[source] getrandom::Error),
}

impl Gateway {
    /// Checks what an operator wrote. Looks at no file.
    ///
    /// # Errors
    /// The first thing that is wrong with it.
    pub fn check(services: &BTreeMap<String, ServiceSpec>) -> Result<(), InvalidGateway> {
        service::check(services).map(|_| ())
    }

    /// Checks it, reads secrets and certificates, and keeps the secrets current from then on. `most` is what one
    /// sandbox may spend.
    ///
    /// # Errors
    /// When something is wrong with any of it.
    pub fn open(services: &BTreeMap<String, ServiceSpec>, most: Option<u64>) -> Result<Self, OpenError> {
        let mut opened = BTreeMap::new();
        for (name, plan) in service::check(services)? {
            let service = Arc::new(plan.open(&name)?);
            opened.insert(name, service);
        }
        let changes = watch::Sender::default();
        let credentials: Vec<(String, Arc<Credential>)> = opened
            .values()
            .filter_map(|service| Some((service.name.clone(), Arc::clone(service.credential.as_ref()?))))
            .collect();
        let refresh = match credentials.is_empty() {
            true => None,
            false => Some(Arc::new(keep_current(credentials, changes.clone()).map_err(OpenError::Thread)?)),
        };
        Ok(Self { services: Arc::new(opened), most, changes, _refresh: refresh })
    }

    /// One that has these services and grants nothing by itself.
    pub(super) fn of(services: BTreeMap<String, Arc<Service>>) -> Self {
        Self { services: Arc::new(services), ..Self::default() }
    }

    /// Grants what a caller asks for, with a token for the sandbox; nothing when it asks for nothing. `may` says which
    /// services the caller may use.
    ///
    /// # Errors
    /// See [`GrantError`].
    pub fn grant(
        &self,
        request: GrantRequest<'_>,
        may: impl Fn(&str) -> bool,
    ) -> Result<Option<(Grants, GatewayToken)>, GrantError> {
        if request.operations.is_empty() {
            return if request.budget.is_none() { Ok(None) } else { Err(GrantError::BudgetAlone) };
        }
        if request.operations.len() > MAX_ASKED {
            return Err(GrantError::TooMany);
        }
        let mut services: BTreeMap<String, Granted> = BTreeMap::new();
        for asked in request.operations {
            let (service, operation) = split(asked)?;
            // That it does not exist is nobody's business who may not use it.
            if !may(service) {
                return Err(GrantError::Forbidden { service: service.to_owned() });
            }
            let unknown = || GrantError::Unknown { asked: asked.clone() };
            let found = self.services.get(service).ok_or_else(unknown)?;
            let names = found.operations.iter().map(|operation| &operation.name);
            let named: Vec<String> =
                names.filter(|name| operation == ALL || *name == operation).cloned().collect();
            if named.is_empty() {
                return Err(unknown());
            }
            let granted = services.entry(service.to_owned()).or_insert_with(|| Granted::new(found));
            granted.operations.extend(named);
        }
        if services.values().map(|granted| granted.operations.len()).sum::<usize>() > MAX_GRANTED {
            return Err(GrantError::TooMany);
        }
        let budget = match (request.budget, self.most) {
            (Some(asked), Some(most)) if asked > most => return Err(GrantError::Budget { most }),
            (asked, most) => asked.or(most),
        };
        let token = GatewayToken::generate().map_err(GrantError::Random)?;
        let grants = Grants {
            token: token.digest(),
            services,
            budget: CostBudget::new(budget),
            requests: AtomicU64::new(0),
            purse: Arc::default(),
            allowance: Allowance::default(),
            last_day: Mutex::default(),
        };
        Ok(Some((grants, token)))
    }
}

pub(super) fn split(asked: &str) -> Result<(&str, &str), GrantError> {
    let form = || GrantError::Form { asked: crate::host::untrusted::printable(asked, MAX_LENGTH) };
    if asked.len() > MAX_LENGTH {
        return Err(form());
    }
    asked
        .split_once('/')
        .filter(|(service, operation)| !service.is_empty() && !operation.is_empty())
        .ok_or_else(form)
}

fn keep_current(
    credentials: Vec<(String, Arc<Credential>)>,
    changes: watch::Sender<u64>,
) -> std::io::Result<Refresh> {
    Refresh::start("gateway", move |_| {
        for (service, credential) in &credentials {
            match credential.refresh() {
                Some(Ok(())) => {
                    tracing::info!(service, "a credential of the gateway was read again");
                    changes.send_modify(|changes| *changes += 1);
                }
                Some(Err(error)) => {
                    tracing::error!(service, %error, "a credential could not be read again; the old one counts");
                }
                None => {}
            }
        }
    })
}

/// Names in one line, as many as may be remembered.
pub(super) fn listed(names: &[String]) -> String {
    let more = names.len().saturating_sub(MAX_LISTED);
    let shown = names[..names.len() - more].join(", ");
    if more == 0 { shown } else { format!("{shown} and {more} more") }
}

/// What one sandbox may ask of one service.
#[derive(Debug)]
pub(super) struct Granted {
    pub(super) service: Arc<Service>,
    pub(super) operations: BTreeSet<String>,
    pub(super) pace: Option<Mutex<Pace>>,
}

impl Granted {
    pub(super) fn new(service: &Arc<Service>) -> Self {
        let pace = service.per_minute.map(|per_minute| Mutex::new(Pace::new(per_minute)));
        Self { service: Arc::clone(service), operations: BTreeSet::new(), pace }
    }

    /// As they are granted.
    pub(super) fn names(&self) -> Vec<String> {
        self.operations.iter().map(|operation| format!("{}/{operation}", self.service.name)).collect()
    }
}

/// What one sandbox may ask of the gateway, and has.
#[derive(Debug)]
pub struct Grants {
    pub(super) token: TokenDigest,
    pub(super) services: BTreeMap<String, Granted>,
    pub(super) budget: CostBudget,
    pub(super) requests: AtomicU64,
    /// What its tenant spends, and may.
    pub(super) purse: Arc<Purse>,
    pub(super) allowance: Allowance,
    /// What this sandbox spent on the last day that it did.
    pub(super) last_day: Mutex<DayCost>,
}

/// Which of two bounds is reached.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Bound {
    Sandbox,
    Tenant,
}

impl Grants {
    /// The same as a part of what a tenant may.
    #[must_use]
    pub fn of_tenant(self, purse: Arc<Purse>, allowance: Allowance) -> Self {
        Self { purse, allowance, ..self }
    }

    /// Takes a cost out of the sandbox's budget and its tenant's, or out of neither.
    pub(super) fn take(&self, cost: u64, day: u64) -> Result<(), Bound> {
        self.budget.take(cost).map_err(|CostSpent| Bound::Sandbox)?;
        if let Err(CostSpent) = self.purse.take(cost, self.allowance, day) {
            self.budget.give_back(cost);
            return Err(Bound::Tenant);
        }
        // It has no bound of its own: the budget has.
        let _ = self.last_day().take(cost, day, None);
        Ok(())
    }

    /// Gives back what was taken for a request that was never made.
    pub(super) fn give_back(&self, cost: u64, day: u64) {
        self.budget.give_back(cost);
        self.purse.give_back(cost, day);
        self.last_day().give_back(cost, day);
    }

    /// What was spent on the last day that anything was.
    #[must_use]
    pub fn cost_of_last_day(&self) -> DayCost {
        *self.last_day()
    }

    fn last_day(&self) -> MutexGuard<'_, DayCost> {
        self.last_day.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Every operation, as `service/operation`.
    #[must_use]
    pub fn operations(&self) -> Vec<String> {
        self.services.values().flat_map(Granted::names).collect()
    }

    /// The first of them, in one line.
    pub(in crate::network) fn listed(&self) -> String {
        listed(&self.operations())
    }

    /// What was spent.
    #[must_use]
    pub fn cost(&self) -> u64 {
        self.budget.spent()
    }

    /// What may be spent in all.
    #[must_use]
    pub fn budget(&self) -> Option<u64> {
        self.budget.most()
    }

    /// Requests that were let through.
    #[must_use]
    pub fn requests(&self) -> u64 {
        self.requests.load(Relaxed)
    }

    /// Counts a request that was let through elsewhere.
    pub(in crate::network) fn passed(&self, cost: u64) {
        let day = today();
        self.budget.add(cost);
        self.requests.fetch_add(1, Relaxed);
        // Who let it through has asked what the tenant may.
        let _ = self.purse.take(cost, Allowance::default(), day);
        let _ = self.last_day().take(cost, day, None);
    }

    /// What it may ask of a service; nothing is `None`.
    pub(super) fn service(&self, name: &str) -> Option<&Granted> {
        self.services.get(name)
    }

    /// The longest that a service of it may be waited for.
    pub(in crate::network) fn patience(&self, service: &str) -> Option<std::time::Duration> {
        self.service(service).map(|granted| granted.service.timeout)
    }
}

#[cfg(test)]
mod tests {
    //! How much can be granted, and told of it.

    use super::*;

    fn gateway(services: usize, operations: usize, most: Option<u64>) -> Gateway {
        let operation = |at| format!("{{ name = \"o{at}\", method = \"GET\", path = \"/{at}\" }}");
        let operations: Vec<String> = (0..operations).map(operation).collect();
        let operations = operations.join(", ");
        let service =
            |at| format!("[s{at}]\nupstream = \"http://127.0.0.1:9\"\noperations = [{operations}]\n");
        let text: String = (0..services).map(service).collect();
        Gateway::open(&toml::from_str(&text).unwrap(), most).unwrap()
    }

    fn asked(names: &[&str]) -> Vec<String> {
        names.iter().map(|name| (*name).to_owned()).collect()
    }

    #[test]
    fn what_is_granted_and_remembered_of_it_is_bounded() {
        let gateway = gateway(2, 200, None);
        let all = |names: &[&str]| {
            let request = GrantRequest { operations: &asked(names), budget: None };
            gateway.grant(request, |_| true)
        };
        let (grants, _) = all(&["s0/*", "s0/o1"]).unwrap().unwrap();
        assert_eq!(grants.operations().len(), 200);
        assert!(grants.listed().ends_with("and 184 more"), "{}", grants.listed());
        assert!(matches!(all(&["s0/*", "s1/*"]), Err(GrantError::TooMany)));
        assert!(all(&[]).unwrap().is_none());
    }

    #[test]
    fn a_budget_is_at_most_the_operators() {
        let gateway = gateway(1, 1, Some(10));
        let granted = |budget| {
            let request = GrantRequest { operations: &asked(&["s0/o0"]), budget };
            gateway.grant(request, |_| true).map(|granted| granted.and_then(|(grants, _)| grants.budget()))
        };
        assert_eq!(granted(None).unwrap(), Some(10));
        assert_eq!(granted(Some(3)).unwrap(), Some(3));
        assert!(matches!(granted(Some(11)), Err(GrantError::Budget { most: 10 })));
    }
}
