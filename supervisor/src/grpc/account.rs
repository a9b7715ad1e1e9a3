//! The account of one call: who, what, how it ended and how long it took, told to the audit log and the metrics
//! whatever becomes of the call.

use std::sync::Arc;
use std::time::{Duration, Instant};

use jiff::Timestamp;
use rekindle_api::v1::ErrorReason;
use tonic::transport::server::TlsConnectInfo;
use tonic::{Code, Request, Status};

use super::admit::Doorkeeper;
use super::connection::{Guest, Peer};
use super::{deadline, status};
use crate::service::{Caller, ServiceError};
use crate::telemetry::{Audit, Decision, Entry, Metrics};

/// What every call needs.
#[derive(Clone)]
pub(super) struct Office {
    pub door: Arc<Doorkeeper>,
    pub audit: Arc<Audit>,
    pub metrics: Arc<Metrics>,
}

/// One call. Dropped without [`Account::close`] it was cancelled.
pub(super) struct Account {
    office: Office,
    method: &'static str,
    peer: Peer,
    caller: Option<Caller>,
    sandbox: String,
    began: Instant,
    within: Option<Duration>,
    open: bool,
}

impl Office {
    /// Opens the account of a call and finds out who calls.
    pub(super) fn open<T>(
        &self,
        method: &'static str,
        request: &Request<T>,
    ) -> Result<(Account, Caller), Status> {
        let plain = request.extensions().get::<Guest>();
        let tls = || request.extensions().get::<TlsConnectInfo<Guest>>().map(TlsConnectInfo::get_ref);
        let guest = plain.or_else(tls).cloned().unwrap_or_else(Guest::unknown);
        let mut account = Account {
            office: self.clone(),
            method,
            peer: guest.peer.clone(),
            caller: None,
            sandbox: String::new(),
            began: Instant::now(),
            within: deadline::of(request.metadata()),
            open: true,
        };
        match self.door.admit(&account.peer, request.metadata()) {
            Ok(caller) => {
                guest.admit();
                account.caller = Some(caller.clone());
                Ok((account, caller))
            }
            Err(refused) => {
                account.tell(Decision::Denied, Some(refused.word()), Code::Unauthenticated);
                self.metrics.rejected("unauthenticated");
                Err(status::unauthenticated())
            }
        }
    }
}

impl Account {
    /// Says which sandbox the call is about.
    pub(super) fn about(&mut self, sandbox: &str) {
        // What a stranger sends is not what a log must hold.
        self.sandbox = sandbox.chars().filter(|c| !c.is_control()).take(64).collect();
    }

    /// How long the caller gave the call.
    pub(super) fn within(&self) -> Option<Duration> {
        self.within
    }

    /// Does the work of a call with one answer, in the time its caller gave it.
    pub(super) async fn bounded<T>(
        &self,
        work: impl Future<Output = Result<T, ServiceError>>,
    ) -> Result<T, ServiceError> {
        deadline::keep(self.within, work).await
    }

    /// Closes the account with how the call ended, in the caller's words.
    pub(super) fn close<T>(mut self, result: Result<T, ServiceError>) -> Result<T, Status> {
        self.settle(&result);
        result.map_err(|error| status::status(&error))
    }

    /// The same for a call that goes on as a stream.
    pub(super) fn settle<T>(&mut self, result: &Result<T, ServiceError>) {
        match result {
            Ok(_) => self.tell(Decision::Allowed, None, Code::Ok),
            Err(error) => {
                let (code, reason) = status::verdict(error);
                let decision = match reason {
                    ErrorReason::MissingScope | ErrorReason::UnknownSandbox => Decision::Denied,
                    _ => Decision::Rejected,
                };
                self.tell(decision, Some(error.word()), code);
            }
        }
    }

    fn tell(&mut self, decision: Decision, reason: Option<&str>, code: Code) {
        if !std::mem::replace(&mut self.open, false) {
            return;
        }
        let peer = self.peer.to_string();
        self.office.audit.record(&Entry {
            time: Timestamp::now(),
            tenant: self.caller.as_ref().map(|caller| caller.tenant.as_str()),
            token: self.caller.as_ref().and_then(|caller| caller.token.as_deref()),
            method: self.method,
            sandbox: Some(self.sandbox.as_str()).filter(|id| !id.is_empty()),
            decision,
            reason,
            peer: Some(&peer),
        });
        self.office.metrics.call(self.method, status::word(code), self.began.elapsed());
    }
}

impl Drop for Account {
    fn drop(&mut self) {
        self.tell(Decision::Allowed, Some("cancelled"), Code::Cancelled);
    }
}
