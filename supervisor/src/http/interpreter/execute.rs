//! Runs code. The answer goes on as long as the code; a client that closes its connection interrupts it.

use std::collections::BTreeMap;
use std::io;
use std::sync::Arc;
use std::time::Duration;

use axum::body::Body;
use axum::http::header::CONTENT_TYPE;
use axum::http::{HeaderValue, Response};
use bytes::Bytes;
use futures::stream::unfold;
use serde::Deserialize;
use tokio::time::sleep;

use super::answer::failed;
use super::{MAX_BODY, language, lines};
use crate::door::CallRecord;
use crate::http::body;
use crate::http::front::{Call, Failure, Front, revocable};
use crate::http::refusal::HttpRefusal;
use crate::service::{CodeRun, ContextChoice};

/// How often a silent run says that it is there; a client that has gone is noticed by that.
const KEEPALIVE: Duration = Duration::from_secs(5);

#[derive(Deserialize)]
struct Execute {
    code: String,
    context_id: Option<String>,
    language: Option<String>,
    env_vars: Option<BTreeMap<String, String>>,
}

pub(super) async fn answer(front: &Front, sandbox: String, mut call: Call, body: Body) -> Response<Body> {
    let standing = call.standing.take();
    let mut context = String::new();
    let begun = {
        let beginning = begin(front, &sandbox, &call, body, &mut context);
        tokio::select! {
            begun = beginning => begun,
            () = crate::http::front::lost(standing.clone()) => return call.revoked(),
        }
    };
    match begun {
        Ok(run) => {
            let record = call.record;
            let revoked = Arc::clone(record.revoked());
            let outbox = Outbox { run, record, over: false };
            let lines = unfold(outbox, |mut outbox| async move {
                let line = outbox.next().await?;
                Some((line, outbox))
            });
            let mut response = Response::new(Body::from_stream(lines));
            let kind = HeaderValue::from_static("application/x-ndjson");
            response.headers_mut().insert(CONTENT_TYPE, kind);
            revocable(response, standing, revoked)
        }
        Err(failure) => failed(call, &sandbox, &context, failure),
    }
}

async fn begin(
    front: &Front,
    sandbox: &str,
    call: &Call,
    body: Body,
    context: &mut String,
) -> Result<CodeRun, Failure> {
    let Execute { code, context_id, language, env_vars } = body::read(body, MAX_BODY).await?;
    let choice = match (context_id.filter(|id| !id.is_empty()), language.filter(|name| !name.is_empty())) {
        (Some(_), Some(_)) => {
            let message = "Only one of context_id or language can be provided";
            return Err(HttpRefusal::bad_request(message).into());
        }
        (Some(id), None) => {
            context.clone_from(&id);
            ContextChoice::Named(id)
        }
        (None, language) => ContextChoice::Default(language::named(language.as_deref())?),
    };
    let env = env_vars.unwrap_or_default();
    Ok(front.service.run_code(&call.caller, sandbox, &choice, &code, &env).await?)
}

struct Outbox {
    run: CodeRun,
    record: CallRecord,
    over: bool,
}

impl Outbox {
    async fn next(&mut self) -> Option<io::Result<Bytes>> {
        if self.over {
            return None;
        }
        let event = tokio::select! {
            event = self.run.next() => event,
            () = sleep(KEEPALIVE) => return Some(Ok(lines::keepalive())),
        };
        match event {
            Ok(Some(event)) => Some(Ok(lines::event(&event))),
            Ok(None) => {
                self.over = true;
                self.record.settle(&Ok(()), "ok");
                Some(Ok(lines::end()))
            }
            // The sandbox is gone: the answer breaks off, by which clients know.
            Err(error) => {
                self.over = true;
                let refusal = HttpRefusal::from(&error);
                self.record.settle::<()>(&Err(error), refusal.word());
                Some(Err(io::Error::other("the sandbox is gone")))
            }
        }
    }
}
