//! The record of one call: who, what, how it ended and how long it took, told to the audit log and the metrics
//! whatever becomes of the call. Begun on the headers, before anything of the body is read ([`super::admit`]).

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use jiff::Timestamp;
use tonic::codegen::http::HeaderMap;
use tonic::{Code, Request, Status};

use super::authenticate::{Admitted, Authenticator};
use super::connection::{ConnectionInfo, Peer};
use super::refusals::Refusals;
use super::revoke::Standing;
use super::{deadline, status};
use crate::service::{CallRates, Caller, ErrorKind, ServiceError};
use crate::telemetry::{Audit, Decision, Entry, Metrics};

/// What it takes to admit a call and to write down what became of it.
#[derive(Clone)]
pub(super) struct CallContext {
    pub authenticator: Arc<Authenticator>,
    pub rates: Arc<CallRates>,
    pub audit: Arc<Audit>,
    pub metrics: Arc<Metrics>,
    pub refusals: Refusals,
}

/// One call. Dropped without [`CallRecord::close`] it was cancelled.
pub(super) struct CallRecord {
    context: CallContext,
    method: &'static str,
    peer: Peer,
    caller: Option<Caller>,
    /// It was let in and is one of too many.
    too_many: bool,
    sandbox: String,
    began: Instant,
    within: Option<Duration>,
    open: bool,
    revoked: Arc<AtomicBool>,
}

impl CallContext {
    /// Begins the record of a call and finds out who calls.
    pub(super) fn begin(
        &self,
        method: &'static str,
        connection: &ConnectionInfo,
        headers: &HeaderMap,
    ) -> Result<(AdmittedCall, Option<Standing>), Status> {
        let mut record = CallRecord {
            context: self.clone(),
            method,
            peer: connection.peer.clone(),
            caller: None,
            too_many: false,
            sandbox: String::new(),
            began: Instant::now(),
            within: deadline::of(headers),
            open: true,
            revoked: Arc::default(),
        };
        match self.authenticator.authenticate(&record.peer, headers) {
            Ok(Admitted { caller, standing }) => {
                connection.admit();
                let counted = self.rates.count(&caller, tokio::time::Instant::now());
                record.caller = Some(caller);
                if let Err(error) = counted {
                    record.too_many = true;
                    self.metrics.rejected(error.word());
                    return Err(record.close::<()>(Err(error)).err().unwrap_or_else(status::unauthenticated));
                }
                Ok((AdmittedCall::new(record), standing))
            }
            Err(refused) => {
                record.tell(Decision::Denied, Some(refused.word()), Code::Unauthenticated);
                self.metrics.rejected("unauthenticated");
                Err(status::unauthenticated())
            }
        }
    }
}

/// The record of an admitted call on its way through tonic, which may never bring it to a handler: a message
/// that cannot be decoded ends before one.
#[derive(Clone)]
pub(super) struct AdmittedCall {
    record: Arc<Mutex<Option<CallRecord>>>,
    revoked: Arc<AtomicBool>,
}

impl AdmittedCall {
    fn new(record: CallRecord) -> Self {
        let revoked = Arc::clone(&record.revoked);
        Self { record: Arc::new(Mutex::new(Some(record))), revoked }
    }

    fn take(&self) -> Option<CallRecord> {
        self.record.lock().unwrap_or_else(PoisonError::into_inner).take()
    }

    /// Closes the record of a call that was answered without a handler, and says what to answer instead.
    pub(super) fn answered(&self, headers: &HeaderMap) -> Option<Status> {
        let record = self.take()?;
        let status = Status::from_header_map(headers).unwrap_or_else(|| Status::unknown(""));
        Some(record.undecoded(&status))
    }

    /// What is dropped from now on was not cancelled by its caller: its token is gone.
    pub(super) fn revoke(&self) {
        self.revoked.store(true, Ordering::Release);
    }
}

impl CallRecord {
    /// The record of a call that reached its handler, and who calls. No call gets there without one.
    pub(super) fn of<T>(request: &Request<T>) -> Result<(Self, Caller), Status> {
        let record = request.extensions().get::<AdmittedCall>().and_then(AdmittedCall::take);
        let caller = record.as_ref().and_then(|record| record.caller.clone());
        record.zip(caller).ok_or_else(status::unauthenticated)
    }

    /// Says which sandbox the call is about.
    pub(super) fn about(&mut self, sandbox: &str) {
        // What a stranger sends is not what a log must hold.
        self.sandbox = sandbox.chars().filter(|c| !c.is_control()).take(64).collect();
    }

    /// When the call began.
    pub(super) fn began(&self) -> Instant {
        self.began
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
        deadline::keep(self.began, self.within, work).await
    }

    /// Closes the record with how the call ended, in the caller's words.
    pub(super) fn close<T>(mut self, result: Result<T, ServiceError>) -> Result<T, Status> {
        self.settle(&result);
        result.map_err(|error| status::status(&error))
    }

    /// Closes the record of a call whose request could not be decoded, or names no method there is.
    pub(super) fn undecoded(mut self, status: &Status) -> Status {
        let reason = match status.code() {
            Code::Unimplemented => "unknown_method",
            Code::Cancelled => "cancelled",
            _ => "malformed_request",
        };
        let answer = status::undecoded(status);
        self.tell(Decision::Rejected, Some(reason), answer.code());
        answer
    }

    /// The same as [`CallRecord::close`] for a call that goes on as a stream.
    pub(super) fn settle<T>(&mut self, result: &Result<T, ServiceError>) {
        match result {
            Ok(_) => self.tell(Decision::Allowed, None, Code::Ok),
            Err(error) => {
                let decision = match error.kind() {
                    ErrorKind::MissingScope | ErrorKind::NetworkForbidden | ErrorKind::UnknownSandbox => {
                        Decision::Denied
                    }
                    _ => Decision::Rejected,
                };
                self.tell(decision, Some(error.word()), status::code(error));
            }
        }
    }

    fn tell(&mut self, decision: Decision, reason: Option<&str>, code: Code) {
        if !std::mem::replace(&mut self.open, false) {
            return;
        }
        self.context.metrics.call(self.method, status::word(code), self.began.elapsed());
        // Whoever is not let in does not fill the log, nor who calls without end.
        if (self.caller.is_none() || self.too_many) && !self.context.refusals.count(&self.peer) {
            return;
        }
        let peer = self.peer.to_string();
        self.context.audit.record(&Entry {
            time: Timestamp::now(),
            tenant: self.caller.as_ref().map(|caller| caller.tenant.as_str()),
            token: self.caller.as_ref().and_then(|caller| caller.token.as_deref()),
            method: self.method,
            sandbox: Some(self.sandbox.as_str()).filter(|id| !id.is_empty()),
            decision,
            reason,
            peer: Some(&peer),
            left_out: None,
        });
    }
}

impl Drop for CallRecord {
    fn drop(&mut self) {
        if self.revoked.load(Ordering::Acquire) {
            self.tell(Decision::Denied, Some("token_revoked"), Code::Unauthenticated);
        } else {
            self.tell(Decision::Allowed, Some("cancelled"), Code::Cancelled);
        }
    }
}
