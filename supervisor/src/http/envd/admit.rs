//! Who may use a sandbox: whoever shows its access token, or for one file a signature made with it.

use std::time::{SystemTime, UNIX_EPOCH};

use axum::http::request::Parts;
use axum::http::{HeaderMap, StatusCode};
use tokio::sync::Semaphore;

use super::signature::{Operation, Signed};
use crate::door::{Admitted, Purpose, Refused};
use crate::http::front::{Call, Front};
use crate::http::refusal::HttpRefusal;

/// The header with the access token.
const HEADER: &str = "x-access-token";
/// Longest header that is looked at.
const MAX_HEADER: usize = 512;
/// Links without a sandbox's name are tried on every sandbox: one at a time,
static SEARCH: Semaphore = Semaphore::const_new(1);
/// and so many between two looks at what else there is to do.
const TRIED_AT_ONCE: usize = 256;

/// Begins a call with the access token of a sandbox.
pub(super) fn by_token(
    front: &Front,
    method: &'static str,
    sandbox: &str,
    parts: &Parts,
) -> Result<Call, HttpRefusal> {
    let mut call = front.admit(method, parts.into(), shown(front, sandbox, &parts.headers))?;
    call.record.about(sandbox);
    Ok(call)
}

fn shown(front: &Front, sandbox: &str, headers: &HeaderMap) -> Result<Admitted, Refused> {
    let header = headers.get(HEADER).ok_or(Refused::NoToken)?;
    let shown = header.to_str().ok().filter(|text| text.len() <= MAX_HEADER).ok_or(Refused::Malformed)?;
    front.calls.authenticator.by_access_token(Purpose::Envd, sandbox, shown)
}

/// Begins a call about one file: with an access token, or by a signed link, which may leave out the sandbox. Returns
/// the sandbox's name with it.
pub(super) async fn for_file(
    front: &Front,
    method: &'static str,
    operation: Operation,
    sandbox: Option<String>,
    signed: Signed<'_>,
    parts: &Parts,
) -> Result<(String, Call), HttpRefusal> {
    if let Some(sandbox) = sandbox.as_ref().filter(|_| parts.headers.contains_key(HEADER)) {
        return by_token(front, method, sandbox, parts).map(|call| (sandbox.clone(), call));
    }
    let unauthorized = |what: &str| HttpRefusal::new(StatusCode::UNAUTHORIZED, what);
    let refuse = |what: &str| {
        // The record is begun for the audit's sake: who is refused is written down.
        let _ = front.admit(method, parts.into(), Err(Refused::Malformed));
        Err(unauthorized(what))
    };
    if signed.signature.is_none() {
        return refuse("missing signature query parameter");
    }
    let Some((sandbox, token)) = signer(front, sandbox, operation, signed).await else {
        return refuse("invalid signature");
    };
    let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default().as_secs();
    match signed.expires() {
        Some(Some(at)) if i64::try_from(now).is_ok_and(|now| now <= at) => {}
        None => {}
        Some(_) => return refuse("signature is already expired"),
    }
    let mut call = front.admit(method, parts.into(), front.calls.authenticator.by_id(&token))?;
    call.record.about(&sandbox);
    Ok((sandbox, call))
}

/// Has a sandbox that is paused until somebody uses it run again. What goes wrong with that, the call itself meets.
pub(super) async fn wake(front: &Front, call: &Call, sandbox: &str) {
    let _ = front.service.wake(&call.caller, sandbox).await;
}

/// The sandbox that a link is signed for, and the token whose holder signed it.
async fn signer(
    front: &Front,
    sandbox: Option<String>,
    operation: Operation,
    signed: Signed<'_>,
) -> Option<(String, String)> {
    let authenticator = &front.calls.authenticator;
    let by = |sandbox: &str, tenant: &str| {
        authenticator.ids_of(tenant).into_iter().find(|id| {
            signed.is_signed_with(operation, &authenticator.access.token(Purpose::Envd, sandbox, id))
        })
    };
    if let Some(sandbox) = sandbox {
        let token = by(&sandbox, &front.service.tenant_of(&sandbox)?)?;
        return Some((sandbox, token));
    }
    // Nobody closes it.
    let _alone = SEARCH.acquire().await.ok()?;
    for some in front.service.present().chunks(TRIED_AT_ONCE) {
        for (sandbox, tenant) in some {
            if let Some(token) = by(sandbox.as_str(), tenant) {
                return Some((sandbox.to_string(), token));
            }
        }
        tokio::task::yield_now().await;
    }
    None
}
