//! The record of one call: who, what, how it ended and how long it took, told to the audit log and the metrics
//! whatever becomes of the call. Begun on the headers, before anything of the body is read.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Instant;

use hyper::http::HeaderMap;
use jiff::Timestamp;

use super::authenticate::{Admitted, Authenticator, Refused};
use super::connection::{ConnectionInfo, Peer};
use super::origin;
use super::refusals::Refusals;
use super::revoke::Standing;
use crate::service::{CallRates, Caller, ErrorKind, Service, ServiceError};
use crate::telemetry::{Audit, Decision, Entry, Metrics, Origin, Step};

/// What the status of a call is called in metrics, whatever is spoken on its connection.
pub(crate) const UNAUTHENTICATED: &str = "unauthenticated";
const CANCELLED: &str = "cancelled";

/// What it takes to admit a call and to write down what became of it.
#[derive(Clone)]
pub(crate) struct CallContext {
    pub authenticator: Arc<Authenticator>,
    rates: Arc<CallRates>,
    audit: Arc<Audit>,
    metrics: Arc<Metrics>,
    refusals: Refusals,
}

/// One call. Dropped before it was told how it ended, it was cancelled.
pub(crate) struct CallRecord {
    context: CallContext,
    method: &'static str,
    peer: Peer,
    caller: Option<Caller>,
    /// It was let in and is one of too many.
    too_many: bool,
    sandbox: String,
    began: Instant,
    open: bool,
    revoked: Arc<AtomicBool>,
}

impl CallContext {
    pub(crate) fn new(service: &Service, authenticator: Arc<Authenticator>, audit: Arc<Audit>) -> Self {
        let refusals = Refusals::new(Arc::clone(&audit));
        let (rates, metrics) = (Arc::clone(service.call_rates()), Arc::clone(service.metrics()));
        Self { authenticator, rates, audit, metrics, refusals }
    }

    /// Begins the record of a call of which nobody knows yet who makes it.
    pub(crate) fn begin(&self, method: &'static str, peer: &Peer) -> CallRecord {
        CallRecord {
            context: self.clone(),
            method,
            peer: peer.clone(),
            caller: None,
            too_many: false,
            sandbox: String::new(),
            began: Instant::now(),
            open: true,
            revoked: Arc::default(),
        }
    }
}

impl CallRecord {
    /// Lets a caller in, or says that it calls too often or is part of nothing; what it is let in by. The headers say
    /// what the call is part of.
    pub(crate) fn admit(
        &mut self,
        admitted: Admitted,
        connection: &ConnectionInfo,
        headers: &HeaderMap,
    ) -> Result<Option<Standing>, ServiceError> {
        let Admitted { mut caller, standing } = admitted;
        connection.admit();
        let counted = self.context.rates.count(&caller, tokio::time::Instant::now());
        let origin = origin::of(headers);
        caller.origin = origin.as_ref().cloned().unwrap_or_default();
        self.caller = Some(caller);
        counted.inspect_err(|error| {
            self.too_many = true;
            self.context.metrics.rejected(error.word());
        })?;
        origin.map(|_| standing)
    }

    /// Closes the record of a call that is not let in.
    pub(crate) fn refuse(mut self, refused: &Refused) {
        self.tell(Decision::Denied, Some(refused.word()), UNAUTHENTICATED);
        self.context.metrics.rejected(UNAUTHENTICATED);
    }

    /// Who calls, once it was let in.
    pub(crate) fn caller(&self) -> Option<&Caller> {
        self.caller.as_ref()
    }

    /// What is true once the token that let the call in is gone: dropped then, it was not cancelled by its caller.
    pub(crate) fn revoked(&self) -> &Arc<AtomicBool> {
        &self.revoked
    }

    /// Says which sandbox the call is about.
    pub(crate) fn about(&mut self, sandbox: &str) {
        // What a stranger sends is not what a log must hold.
        self.sandbox = sandbox.chars().filter(|c| !c.is_control()).take(64).collect();
    }

    /// When the call began.
    pub(crate) fn began(&self) -> Instant {
        self.began
    }

    /// Says how the call ended, with the name its status has in the metrics.
    pub(crate) fn settle<T>(&mut self, result: &Result<T, ServiceError>, status: &'static str) {
        match result {
            Ok(_) => self.tell(Decision::Allowed, None, status),
            Err(error) => {
                let decision = match error.kind() {
                    ErrorKind::MissingScope
                    | ErrorKind::NetworkForbidden
                    | ErrorKind::RootForbidden
                    | ErrorKind::UnknownSandbox => Decision::Denied,
                    _ => Decision::Rejected,
                };
                self.tell(decision, Some(error.word()), status);
            }
        }
    }

    /// Says that the call asked for nothing there is, or could not be read.
    pub(crate) fn reject(&mut self, reason: &str, status: &'static str) {
        self.tell(Decision::Rejected, Some(reason), status);
    }

    fn tell(&mut self, decision: Decision, reason: Option<&str>, status: &'static str) {
        if !std::mem::replace(&mut self.open, false) {
            return;
        }
        self.context.metrics.call(self.method, status, self.began.elapsed());
        // Whoever is not let in does not fill the log, nor who calls without end.
        if (self.caller.is_none() || self.too_many) && !self.context.refusals.count(&self.peer) {
            return;
        }
        let peer = self.peer.to_string();
        let origin = self.caller.as_ref().map(|caller| &caller.origin);
        self.context.audit.record(&Entry {
            time: Timestamp::now(),
            tenant: self.caller.as_ref().map(|caller| caller.tenant.as_str()),
            token: self.caller.as_ref().and_then(|caller| caller.token.as_deref()),
            method: self.method,
            sandbox: Some(self.sandbox.as_str()).filter(|id| !id.is_empty()),
            decision,
            reason,
            trace: origin.and_then(Origin::trace_id).map(|id| id.to_string()),
            step: origin.and_then(|origin| origin.step.as_ref()).map(Step::as_str),
            peer: Some(&peer),
            left_out: None,
        });
    }
}

impl Drop for CallRecord {
    fn drop(&mut self) {
        if self.revoked.load(Ordering::Acquire) {
            self.tell(Decision::Denied, Some("token_revoked"), UNAUTHENTICATED);
        } else {
            self.tell(Decision::Allowed, Some("cancelled"), CANCELLED);
        }
    }
}
