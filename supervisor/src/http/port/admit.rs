//! Who may reach a port: whoever shows the sandbox's traffic token; anybody, unless its maker wants otherwise.

use axum::body::Body;
use axum::http::{HeaderMap, Request, Response, StatusCode};
use serde_json::json;

use super::METHOD;
use crate::door::{Admitted, CallRecord, Purpose, Refused, Standing};
use crate::http::envd::gone;
use crate::http::front::{Asking, Call, Front};
use crate::http::refusal::json_response;
use crate::service::{Caller, Visitor};

/// The header with the token.
pub(super) const HEADER: &str = "e2b-traffic-access-token";
/// Longest header that is looked at.
const MAX_HEADER: usize = 512;

/// Somebody who was let in.
pub(super) struct Admission {
    pub record: CallRecord,
    pub standing: Option<Standing>,
    caller: Option<Caller>,
}

impl Admission {
    pub(super) fn visitor(&self) -> Visitor<'_> {
        self.caller.as_ref().map_or(Visitor::Anyone, Visitor::Caller)
    }
}

/// Lets a visitor in, or says why not.
pub(super) fn visitor(
    front: &Front,
    sandbox: &str,
    request: &Request<Body>,
) -> Result<Admission, Box<Response<Body>>> {
    let (headers, extensions) = (request.headers(), request.extensions());
    let asking = Asking { headers, extensions };
    let public = front.service.is_public(sandbox);
    let mut admission = match (shown(front, sandbox, headers), public) {
        (Err(_), Some(true)) => {
            let record = front.admit_anyone(METHOD, extensions);
            Admission { record, standing: None, caller: None }
        }
        (Err(refused), public) => {
            // Begun for the audit's sake: who is refused is written down.
            let _ = front.admit(METHOD, asking, Err(refused));
            let response = public.map_or_else(|| gone(sandbox), |_| secured(sandbox, headers));
            return Err(Box::new(response));
        }
        (Ok(admitted), _) => {
            let call = front.admit(METHOD, asking, Ok(admitted));
            let Call { record, caller, standing } =
                call.map_err(|refusal| Box::new(refusal.into_response()))?;
            Admission { record, standing, caller: Some(caller) }
        }
    };
    admission.record.about(sandbox);
    Ok(admission)
}

fn shown(front: &Front, sandbox: &str, headers: &HeaderMap) -> Result<Admitted, Refused> {
    let header = headers.get(HEADER).ok_or(Refused::NoToken)?;
    let shown = header.to_str().ok().filter(|text| text.len() <= MAX_HEADER).ok_or(Refused::Malformed)?;
    front.calls.authenticator.by_access_token(Purpose::Traffic, sandbox, shown)
}

/// What is said to somebody without the token, in the words of E2B's proxy.
fn secured(sandbox: &str, headers: &HeaderMap) -> Response<Body> {
    let what = if headers.contains_key(HEADER) { "invalid" } else { "missing" };
    let message = format!("Sandbox is secured with traffic access token. Token header '{HEADER}' is {what}");
    let body = json!({"sandboxId": sandbox, "message": message, "code": 403});
    json_response(StatusCode::FORBIDDEN, &body)
}
