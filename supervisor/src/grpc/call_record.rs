//! The record of one call ([`crate::door`]) in the words of gRPC, and its way through tonic.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use tonic::codegen::http::HeaderMap;
use tonic::{Code, Request, Status};

use super::{deadline, status};
use crate::door::{self, CallContext, ConnectionInfo, Standing};
use crate::service::{Caller, Scope, Service, ServiceError};

/// One call. Dropped without [`CallRecord::close`] it was cancelled.
pub(super) struct CallRecord {
    record: door::CallRecord,
    within: Option<Duration>,
}

/// Begins the record of a call and finds out who calls.
pub(super) fn begin(
    context: &CallContext,
    method: &'static str,
    connection: &ConnectionInfo,
    headers: &HeaderMap,
) -> Result<(AdmittedCall, Option<Standing>), Status> {
    let mut record = context.begin(method, &connection.peer);
    match context.authenticator.authenticate(&connection.peer, headers) {
        Ok(admitted) => {
            let standing = record.admit(admitted, connection, headers);
            let record = CallRecord { record, within: deadline::of(headers) };
            match standing {
                Ok(standing) => Ok((AdmittedCall::new(record), standing)),
                Err(error) => {
                    Err(record.close::<()>(Err(error)).err().unwrap_or_else(status::unauthenticated))
                }
            }
        }
        Err(refused) => {
            record.refuse(&refused);
            Err(status::unauthenticated())
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
        let revoked = Arc::clone(record.record.revoked());
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
        let caller = record.as_ref().and_then(|record| record.record.caller().cloned());
        record.zip(caller).ok_or_else(status::unauthenticated)
    }

    /// Says which sandbox the call is about.
    pub(super) fn about(&mut self, sandbox: &str) {
        self.record.about(sandbox);
    }

    /// Says which sandbox the call is about, and that it is to be used: one that is paused until that is resumed. What
    /// goes wrong with it, the call itself meets.
    pub(super) async fn enter(&mut self, service: &Service, caller: &Caller, scope: Scope, sandbox: &str) {
        self.about(sandbox);
        if caller.require(scope).is_ok() {
            let _ = self.bounded(service.wake(caller, sandbox)).await;
        }
    }

    /// When the call began.
    pub(super) fn began(&self) -> Instant {
        self.record.began()
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
        deadline::keep(self.began(), self.within, work).await
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
        self.record.reject(reason, status::word(answer.code()));
        answer
    }

    /// The same as [`CallRecord::close`] for a call that goes on as a stream.
    pub(super) fn settle<T>(&mut self, result: &Result<T, ServiceError>) {
        let code = result.as_ref().map_or_else(status::code, |_| Code::Ok);
        self.record.settle(result, status::word(code));
    }
}
