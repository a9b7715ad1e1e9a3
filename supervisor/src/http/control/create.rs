//! Makes a sandbox.

use std::collections::BTreeMap;
use std::time::Duration;

use axum::body::Body;
use axum::http::request::Parts;
use axum::http::{HeaderMap, Response, StatusCode};
use serde::Deserialize;
use serde_json::Value;
use sha2::{Digest as _, Sha256};

use super::network::{self, NetworkBody};
use super::{Answer, MAX_BODY, templates, view};
use crate::http::body;
use crate::http::front::{Call, Front};
use crate::http::refusal::{HttpRefusal, json_response};
use crate::service::{AtTimeout, Caller, CreateSpec};

/// The header that makes several requests one.
const IDEMPOTENCY_KEY: &str = "idempotency-key";
/// Longest key of clients.
const MAX_KEY: usize = 255;

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct NewSandbox {
    #[serde(rename = "templateID")]
    template_id: String,
    timeout: Option<u64>,
    metadata: Option<BTreeMap<String, String>>,
    env_vars: Option<BTreeMap<String, String>>,
    #[serde(rename = "allow_internet_access", alias = "allowInternetAccess")]
    allow_internet_access: Option<bool>,
    auto_pause: Option<bool>,
    auto_pause_memory: Option<bool>,
    auto_resume: Option<AutoResume>,
    network: Option<NetworkBody>,
    iam: Option<Value>,
    volume_mounts: Option<Vec<Value>>,
}

#[derive(Deserialize)]
struct AutoResume {
    enabled: Option<bool>,
}

pub(super) async fn answer(front: &Front, mut call: Call, parts: &Parts, body: Body) -> Response<Body> {
    let caller = call.caller.clone();
    let mut made = None;
    let standing = call.standing.take();
    let done = {
        let work = create(front, &caller, &parts.headers, body, &mut made);
        tokio::select! {
            done = work => Some(done),
            () = crate::http::front::lost(standing) => None,
        }
    };
    if let Some(made) = made {
        call.record.about(&made);
    }
    match done {
        Some(done) => call.close(done),
        None => call.revoked(),
    }
}

async fn create(
    front: &Front,
    caller: &Caller,
    headers: &HeaderMap,
    body: Body,
    made: &mut Option<String>,
) -> Answer {
    let key = request_id(headers)?;
    let spec = spec(front, caller, body::read(body, MAX_BODY).await?)?;
    let created = front.service.create(caller, spec, &key).await?;
    *made = Some(created.id.to_string());
    Ok(json_response(StatusCode::CREATED, &view::entry(front, caller, &created)))
}

/// What is asked for, in the service's words.
fn spec(front: &Front, caller: &Caller, asked: NewSandbox) -> Result<CreateSpec, HttpRefusal> {
    let given = |value: &Value| !value.is_null() && value.as_object().is_none_or(|map| !map.is_empty());
    if asked.volume_mounts.is_some_and(|mounts| !mounts.is_empty()) {
        return Err(HttpRefusal::not_offered("volumes"));
    }
    if asked.iam.as_ref().is_some_and(given) {
        return Err(HttpRefusal::not_offered("identities for workloads (iam)"));
    }
    let auto_resume = asked.auto_resume.and_then(|resume| resume.enabled).unwrap_or(false);
    let at_timeout = match (asked.auto_pause.unwrap_or(false), asked.auto_pause_memory.unwrap_or(true)) {
        (false, _) => AtTimeout::End,
        (true, true) => AtTimeout::Pause { auto_resume },
        (true, false) if auto_resume => {
            let why = "a sandbox that is paused without its memory is resumed on request alone: \
                       autoResume cannot be enabled with autoPauseMemory false";
            return Err(HttpRefusal::bad_request(why));
        }
        (true, false) => AtTimeout::PauseWithoutMemory,
    };
    let mut network = asked.network.unwrap_or_default();
    network.allow_internet_access = network.allow_internet_access.or(asked.allow_internet_access);
    let template = templates::resolve(front, &asked.template_id)
        .ok_or_else(|| templates::unknown(&asked.template_id))?;
    Ok(CreateSpec {
        template: Some(template),
        env: asked.env_vars.unwrap_or_default(),
        ttl: asked.timeout.map(Duration::from_secs),
        metadata: asked.metadata.unwrap_or_default(),
        network: network::policy(front, caller, &network)?,
        gateway: network::gateway(front, caller),
        at_timeout,
        public_ports: network.public_ports(front)?,
        host_mask: network.host_mask()?,
        ..CreateSpec::default()
    })
}

/// The name under which requests are one. Ours are shorter than those of clients may be.
fn request_id(headers: &HeaderMap) -> Result<String, HttpRefusal> {
    let Some(key) = headers.get(IDEMPOTENCY_KEY) else { return Ok(String::new()) };
    let plain = |byte: u8| byte.is_ascii_graphic();
    let key = key.as_bytes();
    if key.is_empty() || key.len() > MAX_KEY || !key.iter().copied().all(plain) {
        return Err(HttpRefusal {
            error_code: Some("idempotency_key_invalid"),
            ..HttpRefusal::bad_request(format!("Idempotency-Key must be 1 to {MAX_KEY} plain characters"))
        });
    }
    let sum: String = Sha256::digest(key).iter().map(|byte| format!("{byte:02x}")).collect();
    Ok(format!("http-{sum}"))
}
