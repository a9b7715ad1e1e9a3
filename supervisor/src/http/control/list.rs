//! Lists sandboxes, newest first where nothing else is asked for.

use std::collections::BTreeMap;
use std::time::SystemTime;

use axum::http::{HeaderValue, StatusCode};
use jiff::Timestamp;
use serde_json::Value;

use super::{Answer, templates, view};
use crate::http::front::Front;
use crate::http::query;
use crate::http::refusal::{HttpRefusal, json_response};
use crate::service::{Caller, ListQuery, SandboxState};

pub(super) async fn answer(front: &Front, caller: &Caller, query: &str) -> Answer {
    let Some(query) = read(front, query)? else {
        return Ok(json_response(StatusCode::OK, &Value::Array(Vec::new())));
    };
    let page = front.service.list(caller, &query).await?;
    let sandboxes = page.sandboxes.iter().map(|found| view::listed(front, found)).collect();
    let mut response = json_response(StatusCode::OK, &Value::Array(sandboxes));
    if let Ok(next) = HeaderValue::from_str(&page.next)
        && !page.next.is_empty()
    {
        response.headers_mut().insert("x-next-token", next);
    }
    Ok(response)
}

/// What is asked for; `None` where nothing can be found.
fn read(front: &Front, text: &str) -> Result<Option<ListQuery>, HttpRefusal> {
    let wrong = |what: &str| HttpRefusal::bad_request(format!("{what} cannot be read"));
    let mut query = ListQuery { newest_first: true, ..ListQuery::default() };
    for (key, value) in query::pairs(text).ok_or_else(|| wrong("the query"))? {
        match key.as_str() {
            // Written as a query of its own.
            "metadata" => {
                let pairs = query::pairs(&value).ok_or_else(|| wrong("metadata"))?;
                query.metadata = pairs.into_iter().collect::<BTreeMap<_, _>>();
            }
            "state" => {
                let mut states: Vec<&str> = value.split(',').filter(|state| !state.is_empty()).collect();
                states.sort_unstable();
                states.dedup();
                query.state = match states.as_slice() {
                    [] | ["paused", "running"] => None,
                    ["running"] => Some(SandboxState::Running),
                    ["paused"] => Some(SandboxState::Paused),
                    _ => return Err(wrong("state")),
                };
            }
            "order" => {
                query.newest_first = match value.as_str() {
                    "asc" => false,
                    "desc" => true,
                    _ => return Err(wrong("order")),
                };
            }
            "startedAfter" => {
                let at: Timestamp = value.parse().map_err(|_| wrong("startedAfter"))?;
                query.created_from = Some(SystemTime::from(at));
            }
            "template" => match templates::resolve(front, &value) {
                Some(name) => query.template = Some(name),
                None => return Ok(None),
            },
            "limit" => query.page_size = value.parse().map_err(|_| wrong("limit"))?,
            "nextToken" => query.page_token = value,
            _ => {}
        }
    }
    Ok(Some(query))
}
