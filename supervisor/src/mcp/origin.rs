//! The trace and the step that a call is part of: what its `_meta` says, else its headers, else what this server was
//! started with. The supervisor says what is none.

use axum::http::request::Parts;
use rekindle_api::client::{ConnectError, Connection};
use rmcp::model::RequestMetaObject;

/// In `_meta` and as a header, by W3C's Trace Context.
const TRACEPARENT: &str = "traceparent";
/// Names in `_meta` have a prefix where they are not the protocol's own.
const STEP_META: &str = "rekindle/step";
const STEP_HEADER: &str = "rekindle-step";

/// A connection for this call.
pub(super) fn part_of(
    connection: &Connection,
    meta: &RequestMetaObject,
    head: Option<&Parts>,
) -> Result<Connection, ConnectError> {
    let said = |key: &str| meta.get(key).and_then(|value| value.as_str());
    let sent = |name: &str| header(head?, name);
    let trace = said(TRACEPARENT).or_else(|| sent(TRACEPARENT));
    let step = said(STEP_META).or_else(|| sent(STEP_HEADER));
    connection.clone().part_of(trace, step)
}

/// The text of a header that is there once.
fn header<'a>(head: &'a Parts, name: &str) -> Option<&'a str> {
    let mut all = head.headers.get_all(name).iter();
    let value = all.next()?;
    if all.next().is_some() { None } else { value.to_str().ok() }
}
