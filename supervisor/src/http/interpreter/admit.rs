//! Who may run code: whoever shows the sandbox's access token, or its traffic token. The SDKs have both, and send
//! with calls about contexts only the second. Nobody gets in without: this is no port of a program's.

use axum::http::request::Parts;

use crate::door::{Admitted, Purpose, Refused};
use crate::http::front::{Call, Front};
use crate::http::refusal::HttpRefusal;

/// The headers with a token, and what each opens.
const HEADERS: [(&str, Purpose); 2] =
    [("x-access-token", Purpose::Envd), ("e2b-traffic-access-token", Purpose::Traffic)];
/// Longest header that is looked at.
const MAX_HEADER: usize = 512;

/// Begins a call.
pub(super) fn by_token(
    front: &Front,
    method: &'static str,
    sandbox: &str,
    parts: &Parts,
) -> Result<Call, HttpRefusal> {
    let mut call = front.admit(method, parts.into(), shown(front, sandbox, parts))?;
    call.record.about(sandbox);
    Ok(call)
}

/// The first token that is shown counts.
fn shown(front: &Front, sandbox: &str, parts: &Parts) -> Result<Admitted, Refused> {
    let found = HEADERS.iter().find_map(|(name, purpose)| Some((parts.headers.get(*name)?, *purpose)));
    let (header, purpose) = found.ok_or(Refused::NoToken)?;
    let shown = header.to_str().ok().filter(|text| text.len() <= MAX_HEADER).ok_or(Refused::Malformed)?;
    front.calls.authenticator.by_access_token(purpose, sandbox, shown)
}
