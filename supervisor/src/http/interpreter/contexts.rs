//! Contexts: listed, made, removed, begun anew.

use axum::body::Body;
use axum::http::{Response, StatusCode};
use serde::Deserialize;
use serde_json::{Value, json};

use super::answer::unary;
use super::{MAX_BODY, language};
use crate::http::body;
use crate::http::front::{Call, Front};
use crate::http::refusal::json_response;
use crate::service::ContextView;

#[derive(Deserialize)]
struct NewContext {
    language: Option<String>,
    cwd: Option<String>,
}

fn told(view: &ContextView) -> Value {
    json!({"id": view.id, "language": view.language.name(), "cwd": view.cwd})
}

pub(super) async fn list(front: &Front, sandbox: &str, call: Call) -> Response<Body> {
    let caller = call.caller.clone();
    let work = async {
        let contexts = front.service.contexts(&caller, sandbox)?;
        Ok(json_response(StatusCode::OK, &contexts.iter().map(told).collect()))
    };
    unary(call, sandbox, "", work).await
}

pub(super) async fn create(front: &Front, sandbox: &str, call: Call, body: Body) -> Response<Body> {
    let caller = call.caller.clone();
    let work = async {
        let NewContext { language, cwd } = body::read(body, MAX_BODY).await?;
        let language = language::named(language.as_deref())?;
        let made = front.service.create_context(&caller, sandbox, language, cwd.as_deref()).await?;
        Ok(json_response(StatusCode::OK, &told(&made)))
    };
    unary(call, sandbox, "", work).await
}

pub(super) async fn remove(front: &Front, sandbox: &str, call: Call, context: &str) -> Response<Body> {
    let caller = call.caller.clone();
    let work = async {
        front.service.remove_context(&caller, sandbox, context).await?;
        Ok(json_response(StatusCode::OK, &Value::Null))
    };
    unary(call, sandbox, context, work).await
}

pub(super) async fn restart(front: &Front, sandbox: &str, call: Call, context: &str) -> Response<Body> {
    let caller = call.caller.clone();
    let work = async {
        front.service.restart_context(&caller, sandbox, context).await?;
        Ok(json_response(StatusCode::OK, &Value::Null))
    };
    unary(call, sandbox, context, work).await
}
