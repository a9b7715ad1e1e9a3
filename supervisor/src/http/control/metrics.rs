//! What a sandbox uses. The host keeps no past of it: the answer is one point, the present one.

use std::time::{SystemTime, UNIX_EPOCH};

use axum::http::StatusCode;
use serde_json::json;

use super::{Answer, living, view};
use crate::http::front::Front;
use crate::http::query;
use crate::http::refusal::{HttpRefusal, json_response};
use crate::service::Caller;

pub(super) async fn answer(front: &Front, caller: &Caller, id: &str, query: &str) -> Answer {
    let found = living(front, caller, id).await?;
    let at = SystemTime::now();
    let now = at.duration_since(UNIX_EPOCH).unwrap_or_default().as_secs();
    let (mut start, mut end) = (0, u64::MAX);
    let pairs = query::pairs(query).ok_or_else(|| HttpRefusal::bad_request("the query cannot be read"))?;
    for (key, value) in pairs {
        let wanted = match key.as_str() {
            "start" => &mut start,
            "end" => &mut end,
            _ => continue,
        };
        *wanted =
            value.parse().map_err(|_| HttpRefusal::bad_request(format!("{key} is not a time in seconds")))?;
    }
    // Whole seconds are rounded down: who asks up to now means this one too.
    if now < start || now > end.saturating_add(1) {
        return Ok(json_response(StatusCode::OK, &json!([])));
    }
    let (cpus, machine) = (view::cpus(&found), found.usage.machine);
    let ran = found.usage.running.as_micros().max(1) as f64 * f64::from(cpus);
    let disk = front.service.templates().into_iter().find(|template| template.name == found.template);
    let point = json!({
        "timestamp": view::time(at),
        "timestampUnix": now,
        "cpuCount": cpus,
        // Of all its time: what it uses at this moment is not known.
        "cpuUsedPct": machine.cpu_usec.unwrap_or(0) as f64 * 100.0 / ran,
        "memUsed": machine.memory_bytes.unwrap_or(0),
        "memTotal": found.limits.memory_bytes,
        "memCache": 0,
        "diskUsed": 0,
        "diskTotal": disk.map_or(0, |template| template.disk_mib << 20),
    });
    Ok(json_response(StatusCode::OK, &json!([point])))
}
