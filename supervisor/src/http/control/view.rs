//! A sandbox as clients are told of it.

use std::time::{Duration, SystemTime, UNIX_EPOCH};

use jiff::Timestamp;
use serde_json::{Value, json};

use crate::door::Purpose;
use crate::http::front::Front;
use crate::service::{AtTimeout, Caller, SandboxState, SandboxView};

/// The version of the agent in a sandbox that clients take this for: it decides what they try.
const ENVD_VERSION: &str = "0.6.4";
/// Who runs the sandbox. Clients want a name and do nothing with it.
const CLIENT_ID: &str = "rekindle";

/// What whoever makes or connects to a sandbox gets to know: also how to get in.
pub(super) fn entry(front: &Front, caller: &Caller, view: &SandboxView) -> Value {
    let id = view.id.as_str();
    let access = |purpose| front.calls.authenticator.access_token(purpose, id, caller);
    json!({
        "sandboxID": id,
        "templateID": view.template.as_str(),
        "clientID": CLIENT_ID,
        "envdVersion": ENVD_VERSION,
        "envdAccessToken": access(Purpose::Envd),
        "trafficAccessToken": access(Purpose::Traffic),
        "domain": front.options.domain,
    })
}

/// What a list says of a sandbox.
pub(super) fn listed(front: &Front, view: &SandboxView) -> Value {
    let disk = front.service.templates().into_iter().find(|template| template.name == view.template);
    let state = match view.state {
        SandboxState::Paused => "paused",
        SandboxState::Running | SandboxState::Ending | SandboxState::Ended => "running",
    };
    // A paused one ends when somebody resumes it and its time is over; until then this is as good as any.
    let end = view.expires_at.unwrap_or(view.created_at + view.usage.running);
    json!({
        "sandboxID": view.id.as_str(),
        "templateID": view.template.as_str(),
        "alias": view.template.as_str(),
        "clientID": CLIENT_ID,
        "envdVersion": ENVD_VERSION,
        "startedAt": time(view.created_at),
        "endAt": time(end),
        "cpuCount": cpus(view),
        "memoryMB": view.limits.memory_bytes >> 20,
        "diskSizeMB": disk.map_or(0, |template| template.disk_mib),
        "state": state,
        "metadata": view.metadata,
    })
}

/// What a look at one sandbox says of it.
pub(super) fn detail(front: &Front, caller: &Caller, view: &SandboxView) -> Value {
    let mut detail = listed(front, view);
    let entry = entry(front, caller, view);
    detail["envdAccessToken"] = entry["envdAccessToken"].clone();
    detail["domain"] = entry["domain"].clone();
    detail["allowInternetAccess"] = (!matches!(view.network.as_str(), "" | "none")).into();
    let on_timeout = match view.at_timeout {
        AtTimeout::End => "kill",
        AtTimeout::Pause { .. } | AtTimeout::PauseWithoutMemory => "pause",
    };
    let auto_resume = view.at_timeout == AtTimeout::Pause { auto_resume: true };
    detail["lifecycle"] = json!({"onTimeout": on_timeout, "autoResume": auto_resume});
    detail
}

/// Whole processors.
pub(super) fn cpus(view: &SandboxView) -> u32 {
    view.limits.milli_cpus.div_ceil(1000).max(1)
}

/// A moment as text. Microseconds are what clients keep of it.
pub(super) fn time(at: SystemTime) -> String {
    let micros = at.duration_since(UNIX_EPOCH).unwrap_or(Duration::ZERO).as_micros();
    let micros = i64::try_from(micros).unwrap_or(i64::MAX);
    Timestamp::from_microsecond(micros).unwrap_or(Timestamp::MAX).to_string()
}
