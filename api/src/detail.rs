//! Typed details of errors: an [`ErrorDetail`] inside the `google.rpc.Status` that gRPC carries beside a status.
//! Put in by the server's error table, taken out by clients.

use bytes::Bytes;
use prost::Message as _;
use tonic::{Code, Status};

use crate::v1::ErrorDetail;

/// How the detail is named inside its envelope.
const TYPE_URL: &str = "type.googleapis.com/rekindle.v1.ErrorDetail";

/// `google.rpc.Status`, as far as it is needed here.
#[derive(Clone, PartialEq, prost::Message)]
struct Envelope {
    #[prost(int32, tag = "1")]
    code: i32,
    #[prost(string, tag = "2")]
    message: String,
    #[prost(message, repeated, tag = "3")]
    details: Vec<Any>,
}

/// `google.protobuf.Any`.
#[derive(Clone, PartialEq, prost::Message)]
struct Any {
    #[prost(string, tag = "1")]
    type_url: String,
    #[prost(bytes = "vec", tag = "2")]
    value: Vec<u8>,
}

/// A status that carries a detail.
#[must_use]
pub fn status(code: Code, message: String, detail: &ErrorDetail) -> Status {
    let any = Any { type_url: TYPE_URL.to_owned(), value: detail.encode_to_vec() };
    let envelope = Envelope { code: code as i32, message: message.clone(), details: vec![any] };
    Status::with_details(code, message, Bytes::from(envelope.encode_to_vec()))
}

/// The detail of a status, if it carries one.
#[must_use]
pub fn detail(status: &Status) -> Option<ErrorDetail> {
    let envelope = Envelope::decode(status.details()).ok()?;
    let any = envelope.details.iter().find(|any| any.type_url == TYPE_URL)?;
    ErrorDetail::decode(&any.value[..]).ok()
}

#[cfg(test)]
mod tests {
    //! What goes in comes out.

    use super::*;
    use crate::v1::ErrorReason;

    #[test]
    fn a_detail_survives_its_envelope() {
        let sent = ErrorDetail {
            reason: ErrorReason::HostFull.into(),
            retryable: true,
            retry_after_millis: 250,
            hint: "wait".into(),
            end: None,
        };
        let status = status(Code::ResourceExhausted, "no room".into(), &sent);
        assert_eq!(status.message(), "no room");
        assert_eq!(detail(&status), Some(sent));
    }

    #[test]
    fn a_status_without_a_detail_has_none() {
        assert_eq!(detail(&Status::internal("x")), None);
        assert_eq!(detail(&Status::with_details(Code::Internal, "x", Bytes::from_static(b"\xff\xff"))), None);
    }
}
