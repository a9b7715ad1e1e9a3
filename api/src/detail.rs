//! Typed details of errors, inside the `google.rpc.Status` that gRPC carries beside a status: our own [`ErrorDetail`],
//! and for clients that know only the common ones `ErrorInfo` and `RetryInfo`. Put in by the server's error table,
//! taken out by clients.

use std::collections::BTreeMap;

use bytes::Bytes;
use prost::Message;
use prost_types::{Any, Duration};
use tonic::{Code, Status};

use crate::v1::ErrorDetail;

/// Who gives the reasons in an `ErrorInfo`.
pub const DOMAIN: &str = "rekindle";

const DETAIL: &str = "type.googleapis.com/rekindle.v1.ErrorDetail";
const ERROR_INFO: &str = "type.googleapis.com/google.rpc.ErrorInfo";
const RETRY_INFO: &str = "type.googleapis.com/google.rpc.RetryInfo";

/// `google.rpc.Status`.
#[derive(Clone, PartialEq, Message)]
struct Envelope {
    #[prost(int32, tag = "1")]
    code: i32,
    #[prost(string, tag = "2")]
    message: String,
    #[prost(message, repeated, tag = "3")]
    details: Vec<Any>,
}

/// `google.rpc.ErrorInfo`.
#[derive(Clone, PartialEq, Message)]
struct ErrorInfo {
    #[prost(string, tag = "1")]
    reason: String,
    #[prost(string, tag = "2")]
    domain: String,
    #[prost(btree_map = "string, string", tag = "3")]
    metadata: BTreeMap<String, String>,
}

/// `google.rpc.RetryInfo`.
#[derive(Clone, PartialEq, Message)]
struct RetryInfo {
    #[prost(message, optional, tag = "1")]
    retry_delay: Option<Duration>,
}

fn any(type_url: &str, message: &impl Message) -> Any {
    Any { type_url: type_url.to_owned(), value: message.encode_to_vec() }
}

/// A status that carries a detail.
#[must_use]
pub fn status(code: Code, message: String, detail: &ErrorDetail) -> Status {
    let reason = detail.reason().as_str_name().trim_start_matches("ERROR_REASON_").to_owned();
    let info = ErrorInfo { reason, domain: DOMAIN.to_owned(), metadata: BTreeMap::new() };
    let mut details = vec![any(DETAIL, detail), any(ERROR_INFO, &info)];
    if let Some(delay) = detail.retry_after.filter(|_| detail.retryable) {
        details.push(any(RETRY_INFO, &RetryInfo { retry_delay: Some(delay) }));
    }
    let envelope = Envelope { code: code as i32, message: message.clone(), details };
    Status::with_details(code, message, Bytes::from(envelope.encode_to_vec()))
}

/// The detail of a status, if it carries one.
#[must_use]
pub fn detail(status: &Status) -> Option<ErrorDetail> {
    let envelope = Envelope::decode(status.details()).ok()?;
    let any = envelope.details.iter().find(|any| any.type_url == DETAIL)?;
    ErrorDetail::decode(&any.value[..]).ok()
}

#[cfg(test)]
mod tests {
    //! What goes in comes out.

    use super::*;
    use crate::v1::ErrorReason;

    fn host_full() -> ErrorDetail {
        ErrorDetail {
            reason: ErrorReason::HostFull.into(),
            retryable: true,
            retry_after: Some(Duration { seconds: 0, nanos: 250_000_000 }),
            hint: "wait".into(),
            end: None,
        }
    }

    #[test]
    fn a_detail_survives_its_envelope() {
        let status = status(Code::ResourceExhausted, "no room".into(), &host_full());
        assert_eq!(status.message(), "no room");
        assert_eq!(detail(&status), Some(host_full()));
    }

    #[test]
    fn a_client_that_knows_only_the_common_details_finds_reason_and_delay() {
        let status = status(Code::ResourceExhausted, "no room".into(), &host_full());
        let envelope = Envelope::decode(status.details()).expect("an envelope");
        let find = |url: &str| envelope.details.iter().find(|any| any.type_url == url).expect("a detail");
        let info = ErrorInfo::decode(&find(ERROR_INFO).value[..]).expect("an ErrorInfo");
        assert_eq!((&info.reason[..], &info.domain[..]), ("HOST_FULL", DOMAIN));
        let retry = RetryInfo::decode(&find(RETRY_INFO).value[..]).expect("a RetryInfo");
        assert_eq!(retry.retry_delay, host_full().retry_after);
    }

    #[test]
    fn what_may_not_be_repeated_has_no_delay() {
        let detail = ErrorDetail { retryable: false, ..host_full() };
        let status = status(Code::Internal, "x".into(), &detail);
        let envelope = Envelope::decode(status.details()).expect("an envelope");
        assert!(envelope.details.iter().all(|any| any.type_url != RETRY_INFO));
    }

    #[test]
    fn a_status_without_a_detail_has_none() {
        assert_eq!(detail(&Status::internal("x")), None);
        assert_eq!(detail(&Status::with_details(Code::Internal, "x", Bytes::from_static(b"\xff\xff"))), None);
    }
}
