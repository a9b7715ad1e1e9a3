//! The network of a sandbox: which policy it may have, the one that is put in force later, and what it connects to.

use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use jiff::Timestamp;
use tokio::sync::watch;
use tokio::time::Instant;

use super::caller::{Caller, Scope};
use super::change::Change;
use super::error::ServiceError;
use super::events::SandboxEventKind;
use super::id::ExecutionId;
use super::registry::{Found, Service};
use super::sandbox::{Sandbox, SandboxFacts, SandboxState, SandboxView};
use crate::network::{
    ConnectionState, ConnectionView, Gate, GatewayRequest, GatewayToken, GrantError, GrantRequest, Grants,
    Observe, Policy,
};
use crate::telemetry::{Audit, ConnectionEntry, Decision, LeftOutEntry, Metrics, Step};

/// Lines of the audit log in a second, of one sandbox. A guest decides how many connections it tries.
const MAX_LINES: u64 = 100;
/// Why a policy cannot be put in force later.
const UNTRUSTED: &str = "this policy records or replays, and the programs of this sandbox do not trust its authority\n\
                         hint: make a sandbox under such a policy; it can be put under another one later";

impl Service {
    /// A policy that the caller may choose.
    pub(super) fn policy(&self, caller: &Caller, name: &str) -> Result<Arc<Policy>, ServiceError> {
        if !matches!(name, "" | "none") && !caller.networks.allow(name) {
            return Err(ServiceError::NetworkForbidden { name: super::timeline::subject(name) });
        }
        let policy = self.config().network.policy(name);
        let policy = policy.ok_or_else(|| ServiceError::invalid("there is no such network policy"))?;
        match self.config().network.require(&policy) {
            Ok(()) => Ok(policy),
            Err(error) => Err(ServiceError::invalid(error.to_string())),
        }
    }

    /// What a caller may let a new sandbox ask of the gateway.
    pub(super) fn grants(
        &self,
        caller: &Caller,
        request: GrantRequest<'_>,
    ) -> Result<Option<(Grants, GatewayToken)>, ServiceError> {
        let granted = self.config().gateway.grant(request, |service| caller.gateway.allow(service));
        let of_tenant = |(grants, token): (Grants, GatewayToken)| {
            (grants.of_tenant(self.purse(&caller.tenant), caller.quotas.gateway), token)
        };
        granted.map(|granted| granted.map(of_tenant)).map_err(|error| match error {
            GrantError::Forbidden { service } => {
                ServiceError::GatewayForbidden { service: super::timeline::subject(&service) }
            }
            GrantError::Random(error) => ServiceError::Random(error),
            error => ServiceError::invalid(error.to_string()),
        })
    }

    /// The network of a new sandbox, whose connections are counted, logged and audited.
    pub(super) fn gate(
        &self,
        facts: &SandboxFacts,
        policy: Arc<Policy>,
        grants: Option<Grants>,
    ) -> Arc<Gate> {
        let observer = Observer {
            sandbox: facts.id.to_string(),
            tenant: facts.tenant.clone(),
            metrics: Arc::clone(self.metrics()),
            audit: self.config().audit.clone(),
            window: Mutex::default(),
        };
        Arc::new(self.config().network.gate(policy, Some(Arc::new(observer))).with_grants(grants))
    }

    /// Puts a sandbox under another policy. Open connections that it does not allow end.
    ///
    /// # Errors
    /// See [`ServiceError`].
    pub async fn update_network(
        &self,
        caller: &Caller,
        sandbox: &str,
        network: &str,
    ) -> Result<SandboxView, ServiceError> {
        caller.require(Scope::Create)?;
        let sandbox = self.alive(caller, sandbox)?;
        let change = Change::begin(self, &sandbox, &caller.origin, "update_network");
        let changed = self.policy(caller, network).and_then(|policy| {
            let inner = sandbox.lock();
            if matches!(inner.state, SandboxState::Ending | SandboxState::Ended) {
                return Err(sandbox.over(&inner, false));
            }
            drop(inner);
            if policy.intercepts() && sandbox.gate.interception().is_none() {
                return Err(ServiceError::invalid(UNTRUSTED));
            }
            sandbox.gate.set_policy(policy);
            self.events().tell(SandboxEventKind::NetworkChanged, sandbox.view());
            Ok(sandbox.view())
        });
        // Who is answered can rely on it.
        sandbox.gate.in_force().await;
        change.done(changed)
    }

    /// The connections of a sandbox; with `follow` also those to come.
    ///
    /// # Errors
    /// When the caller has none of this name, or it has ended.
    pub fn connections(
        &self,
        caller: &Caller,
        sandbox: &str,
        follow: bool,
    ) -> Result<Connections, ServiceError> {
        match self.find(caller, sandbox, true)? {
            Found::Alive(sandbox) => {
                let news = sandbox.gate.journal().news();
                Ok(Connections { sandbox, follow, seen: 0, news })
            }
            Found::Gone(gone) => Err(gone.error()),
        }
    }
}

/// The connections of a sandbox, one after the other.
#[derive(Debug)]
pub struct Connections {
    sandbox: Arc<Sandbox>,
    follow: bool,
    seen: u64,
    news: watch::Receiver<u64>,
}

impl Connections {
    /// The next one, or the next change of one; `None` after the last.
    pub async fn next(&mut self) -> Option<ConnectionView> {
        loop {
            self.news.borrow_and_update();
            if let Some(view) = self.sandbox.gate.journal().after(self.seen) {
                self.seen = view.revision;
                return Some(view);
            }
            if !self.follow {
                return None;
            }
            tokio::select! {
                // The sandbox, which is held here, has the other end.
                _ = self.news.changed() => {}
                _ = self.sandbox.ended() => self.follow = false,
            }
        }
    }
}

/// The name of the execution that a connection belongs to.
#[must_use]
pub fn connection_execution(view: &ConnectionView) -> Option<ExecutionId> {
    Some(ExecutionId(view.execution)).filter(|_| view.execution != 0)
}

/// Tells of the connections of one sandbox.
#[derive(Debug)]
struct Observer {
    sandbox: String,
    tenant: String,
    metrics: Arc<Metrics>,
    audit: Arc<Audit>,
    /// The second that is under way, lines in it, and those that were left out since the last line.
    window: Mutex<(Option<Instant>, u64, u64)>,
}

impl Observer {
    /// Whether there is room for a line, and how many had none before it.
    fn line(&self) -> Option<u64> {
        let mut window = self.window.lock().unwrap_or_else(PoisonError::into_inner);
        let (since, lines, left_out) = &mut *window;
        if since.is_none_or(|since| since.elapsed() >= Duration::from_secs(1)) {
            (*since, *lines) = (Some(Instant::now()), 0);
        }
        if *lines < MAX_LINES {
            *lines += 1;
            return Some(std::mem::take(left_out));
        }
        *left_out += 1;
        None
    }

    /// Counts those that no line has counted yet: none may follow.
    fn count_left_out(&self) {
        let left_out = {
            let mut window = self.window.lock().unwrap_or_else(PoisonError::into_inner);
            std::mem::take(&mut window.2)
        };
        if left_out > 0 {
            let (tenant, sandbox) = (self.tenant.as_str(), self.sandbox.as_str());
            let time = Timestamp::now();
            self.audit.record(&LeftOutEntry { time, tenant, sandbox, method: "connections", left_out });
        }
    }
}

impl Drop for Observer {
    /// Goes with the last connection, which may end after its sandbox.
    fn drop(&mut self) {
        self.count_left_out();
    }
}

impl Observe for Observer {
    fn request(&self) {
        self.metrics.network_request();
    }

    fn ended(&self) {
        self.count_left_out();
    }

    fn gateway(&self, request: &GatewayRequest<'_>) {
        self.metrics.gateway(request.service, request.outcome, request.cost);
    }

    fn connection(&self, view: &ConnectionView) {
        let (word, decision) = match &view.state {
            ConnectionState::Denied(_) => ("denied", Decision::Denied),
            ConnectionState::Closed { denial: Some(_), .. } => ("cut", Decision::Denied),
            ConnectionState::Failed { .. } => ("failed", Decision::Allowed),
            ConnectionState::Open { .. } | ConnectionState::Closed { denial: None, .. } => {
                ("served", Decision::Allowed)
            }
        };
        self.metrics.connection(word, view.up, view.down);
        let Some(left_out) = self.line() else { return };
        let execution = connection_execution(view).map(|id| id.to_string());
        let rule = match &view.state {
            ConnectionState::Open { rule } | ConnectionState::Closed { rule, .. } => Some(rule.as_str()),
            ConnectionState::Denied(denial) => denial.rule.as_deref(),
            ConnectionState::Failed { .. } => None,
        };
        self.audit.record(&ConnectionEntry {
            time: Timestamp::now(),
            tenant: &self.tenant,
            sandbox: &self.sandbox,
            guest_says_execution: execution.as_deref(),
            trace: view.origin.trace_id().map(|id| id.to_string()),
            step: view.origin.step.as_ref().map(Step::as_str),
            method: "connection",
            outcome: word,
            decision,
            host: &view.host,
            port: view.port,
            policy: &view.policy,
            rule,
            reason: view.state.denial().map(|denial| denial.reason.as_str()),
            bytes_up: view.up,
            bytes_down: view.down,
            left_out: Some(left_out).filter(|left_out| *left_out > 0),
        });
    }
}

#[cfg(test)]
mod tests {
    //! How much a guest can write into the audit log.

    use super::*;

    #[tokio::test(start_paused = true)]
    async fn a_guest_that_floods_the_gate_writes_so_many_lines_a_second_and_the_rest_is_counted() {
        let observer = Observer {
            sandbox: String::new(),
            tenant: String::new(),
            metrics: Arc::default(),
            audit: Arc::new(Audit::to_log()),
            window: Mutex::default(),
        };
        let lines = || (0..1000).filter(|_| observer.line().is_some()).count() as u64;
        assert_eq!(lines(), MAX_LINES);
        tokio::time::advance(Duration::from_secs(1)).await;
        assert_eq!(observer.line(), Some(1000 - MAX_LINES), "the next one says how many had none");
        assert_eq!(observer.line(), Some(0));
        assert_eq!(lines(), MAX_LINES - 2);
    }

    #[tokio::test(start_paused = true)]
    async fn connections_that_no_line_counts_are_counted_when_the_sandbox_has_ended_and_once_more_after_it() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("audit.jsonl");
        let audit = Arc::new(Audit::to_file(&path, Default::default()).unwrap());
        let (sandbox, tenant) = ("sb".to_owned(), "acme".to_owned());
        let window = Mutex::default();
        let observer =
            Observer { sandbox, tenant, metrics: Arc::default(), audit: Arc::clone(&audit), window };
        let told = || {
            assert!(audit.flush());
            let text = std::fs::read_to_string(&path).unwrap();
            let lines = text.lines().map(|line| serde_json::from_str::<serde_json::Value>(line).unwrap());
            let whole = lines.map(|line| {
                assert_eq!((&line["sandbox"], &line["tenant"]), (&"sb".into(), &"acme".into()));
                assert_eq!(line["method"], "connections");
                line["left_out"].as_u64().unwrap()
            });
            whole.collect::<Vec<_>>()
        };
        observer.ended();
        assert!(told().is_empty(), "there are none");
        let flood = || (0..1000).filter(|_| observer.line().is_none()).count() as u64;
        let left_out = flood();
        observer.ended();
        observer.ended();
        assert_eq!(told(), [left_out]);
        // What was still open when it ended.
        let later = flood();
        drop(observer);
        assert_eq!(told(), [left_out, later]);
    }
}
