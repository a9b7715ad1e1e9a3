//! What a sandbox uses, as a series of points: those that were noted over its life, and the present one.

use std::time::{Duration, SystemTime, UNIX_EPOCH};

use axum::http::StatusCode;
use serde_json::{Value, json};

use super::{Answer, living, view};
use crate::http::front::Front;
use crate::http::query;
use crate::http::refusal::{HttpRefusal, json_response};
use crate::service::Caller;

pub(super) async fn answer(front: &Front, caller: &Caller, id: &str, query: &str) -> Answer {
    let found = living(front, caller, id).await?;
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
    let mut points = front.service.usage_history(caller, id)?;
    points.push(found.usage.point());
    let cpus = view::cpus(&found);
    let disk = front.service.templates().into_iter().find(|template| template.name == found.template);
    let disk = disk.map_or(0, |template| template.disk_mib << 20);
    let mut before = (found.created_at, Duration::ZERO);
    let mut answer: Vec<Value> = Vec::new();
    for point in points {
        let used = used_percent(before, (point.at, point.cpu), cpus);
        before = (point.at, point.cpu);
        let second = point.at.duration_since(UNIX_EPOCH).unwrap_or_default().as_secs();
        // Whole seconds are rounded down: who asks up to now means this one too.
        if (start..=end.saturating_add(1)).contains(&second) {
            answer.push(json!({
                "timestamp": view::time(point.at),
                "timestampUnix": second,
                "cpuCount": cpus,
                "cpuUsedPct": used,
                "memUsed": point.memory_bytes,
                "memTotal": found.limits.memory_bytes,
                // The guest alone knows, and is not asked: docs/guides/e2b.md says so.
                "memCache": 0,
                "diskUsed": point.disk_bytes,
                "diskTotal": disk,
            }));
        }
    }
    Ok(json_response(StatusCode::OK, &answer.into()))
}

/// How much of its processors a sandbox used between two points.
fn used_percent(before: (SystemTime, Duration), after: (SystemTime, Duration), cpus: u32) -> f64 {
    let time = after.0.duration_since(before.0).unwrap_or_default().as_secs_f64();
    let used = after.1.saturating_sub(before.1).as_secs_f64();
    let percent = used * 100.0 / (time * f64::from(cpus.max(1)));
    if percent.is_finite() { percent } else { 0.0 }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn use_is_that_between_two_points_and_never_nonsense() {
        let at = |seconds| UNIX_EPOCH + Duration::from_secs(seconds);
        let second = Duration::from_secs;
        assert_eq!(used_percent((at(0), second(0)), (at(10), second(10)), 2), 50.0);
        assert_eq!(used_percent((at(10), second(10)), (at(20), second(10)), 2), 0.0);
        for after in [(at(10), second(20)), (at(5), second(20)), (at(20), second(0))] {
            assert!(used_percent((at(10), second(10)), after, 0).is_finite());
        }
    }
}
