//! The status of a call in gRPC, as an error of Connect: code, message, and every detail both as it is and in words.

use axum::http::HeaderMap;
use base64::Engine as _;
use base64::alphabet::STANDARD;
use base64::engine::DecodePaddingMode;
use base64::engine::general_purpose::{GeneralPurpose, GeneralPurposeConfig};
use bytes::Bytes;
use prost_reflect::{DescriptorPool, DynamicMessage, Value};

use crate::http::connect::{Code, ConnectError, Detail};
use crate::http::query;

/// As gRPC has it in headers and Connect in JSON: written without padding, read with or without.
const BASE64: GeneralPurpose = GeneralPurpose::new(
    &STANDARD,
    GeneralPurposeConfig::new()
        .with_encode_padding(false)
        .with_decode_padding_mode(DecodePaddingMode::Indifferent),
);

/// How a call ended.
pub(super) type Status = Result<(), ConnectError>;

/// The status that headers or trailers have, where they have one.
pub(super) fn of(headers: &HeaderMap, pool: &DescriptorPool) -> Option<Status> {
    let code = headers.get("grpc-status")?.to_str().ok().and_then(|number| number.parse().ok());
    if code == Some(0) {
        return Some(Ok(()));
    }
    let message = headers.get("grpc-message").and_then(|text| text.to_str().ok());
    let message = message.and_then(query::segment).unwrap_or_default();
    let details = headers.get("grpc-status-details-bin").and_then(|text| BASE64.decode(text).ok());
    let details = details.and_then(|bytes| details_of(&bytes, pool)).unwrap_or_default();
    Some(Err(ConnectError { code: code.map_or(Code::Unknown, Code::of_grpc), message, details }))
}

/// The details in a `google.rpc.Status`.
fn details_of(bytes: &[u8], pool: &DescriptorPool) -> Option<Vec<Detail>> {
    let status = DynamicMessage::decode(pool.get_message_by_name("google.rpc.Status")?, bytes).ok()?;
    let details = status.get_field_by_name("details")?;
    Some(details.as_list()?.iter().filter_map(|any| detail(any, pool)).collect())
}

fn detail(any: &Value, pool: &DescriptorPool) -> Option<Detail> {
    let any = any.as_message()?;
    let (url, value) = (any.get_field_by_name("type_url")?, any.get_field_by_name("value")?);
    let (url, value): (&str, &Bytes) = (url.as_str()?, value.as_bytes()?);
    let kind = url.rsplit('/').next().unwrap_or(url);
    let message =
        pool.get_message_by_name(kind).and_then(|kind| DynamicMessage::decode(kind, value.clone()).ok());
    Some(Detail {
        kind: kind.to_owned(),
        value: BASE64.encode(value),
        debug: message.and_then(|message| serde_json::to_value(&message).ok()),
    })
}
