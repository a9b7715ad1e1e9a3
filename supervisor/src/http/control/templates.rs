//! Templates by the names that clients have for them.

use axum::http::StatusCode;
use serde_json::json;

use super::Answer;
use crate::config::TemplateName;
use crate::http::front::Front;
use crate::http::refusal::{HttpRefusal, json_response};

/// Names that SDKs use when their caller names none.
const USUAL: [&str; 2] = ["base", "code-interpreter-v1"];

/// The template of a name: what the operator calls so, one of ours, or the default one for a usual name.
pub(super) fn resolve(front: &Front, name: &str) -> Option<TemplateName> {
    if let Some(template) = front.options.aliases.get(name) {
        return Some(template.clone());
    }
    let templates = front.service.templates();
    let own = templates.into_iter().map(|template| template.name).find(|own| own.as_str() == name);
    own.or_else(|| USUAL.contains(&name).then(|| front.service.config().default_template.clone()))
}

/// A name that no template has.
pub(super) fn unknown(name: &str) -> HttpRefusal {
    let name: String = name.chars().filter(|c| !c.is_control()).take(64).collect();
    HttpRefusal::new(StatusCode::NOT_FOUND, format!("there is no template named {name}"))
}

pub(super) fn answer(front: &Front, name: &str) -> Answer {
    let template = resolve(front, name).ok_or_else(|| unknown(name))?;
    Ok(json_response(StatusCode::OK, &json!({"templateID": template.as_str(), "public": false})))
}
