//! Admission on the headers: who may not call is refused before anything of the body is read.
//!
//! ```text
//! headers ──▶ health, reflection? ──yes──▶ a few at a time, small messages
//!                  │ no
//!                  ▼
//!             authenticate ──no──▶ `UNAUTHENTICATED`, the stream is closed, the body is never read
//!                  │ yes
//!                  ▼
//!             record in the request's extensions ──▶ tonic decodes the message ──▶ handler
//! ```
//!
//! A call with a token goes on as long as the token is in force ([`crate::door`]).
//!
//! Both listeners serve their routes through this. A call that tonic answers by itself (a garbled or oversized
//! message, a method that does not exist) is written down here and gets the detail that every error has.

use std::convert::Infallible;
use std::future::ready;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};

use bytes::Bytes;
use http_body_util::BodyExt as _;
use hyper::body::Frame;
use tonic::Status;
use tonic::body::Body;
use tonic::codegen::Service;
use tonic::codegen::http::{HeaderMap, Request, Response};
use tonic::service::Routes;

use super::call_record::{self, AdmittedCall};
use super::status;
use crate::door::{CallContext, ConnectionInfo, Handler, RevocableBody, Standing};

/// Services that answer whoever asks.
const PUBLIC: [&str; 3] = [
    "/grpc.health.v1.Health/",
    "/grpc.reflection.v1.ServerReflection/",
    "/grpc.reflection.v1alpha.ServerReflection/",
];

/// What the paths of the API's methods begin with.
const PACKAGE: &str = "/rekindle.v1.";

/// Methods of the API, as the audit log and the metrics name them.
const METHODS: [&str; 37] = [
    "Sandboxes/Create",
    "Sandboxes/Get",
    "Sandboxes/List",
    "Sandboxes/Execute",
    "Sandboxes/ExecuteStream",
    "Sandboxes/Pause",
    "Sandboxes/Resume",
    "Sandboxes/SetTimeout",
    "Sandboxes/Destroy",
    "Sandboxes/Watch",
    "Sandboxes/Timeline",
    "Executions/Start",
    "Executions/List",
    "Executions/Attach",
    "Executions/SendInput",
    "Executions/Signal",
    "Executions/Resize",
    "Executions/Wait",
    "Interpreter/Run",
    "Interpreter/CreateContext",
    "Interpreter/ListContexts",
    "Interpreter/RestartContext",
    "Interpreter/RemoveContext",
    "Files/Upload",
    "Files/Download",
    "Files/List",
    "Files/Stat",
    "Files/Remove",
    "Files/MakeDir",
    "Files/Move",
    "Files/Describe",
    "Files/Watch",
    "Network/Update",
    "Network/Connections",
    "Host/ListTemplates",
    "Host/Status",
    "Host/Usage",
];

/// Methods that answer as long as they like; all others answer once.
const STREAMS: [&str; 7] = [
    "Sandboxes/ExecuteStream",
    "Executions/Attach",
    "Interpreter/Run",
    "Files/Download",
    "Files/Watch",
    "Network/Connections",
    "Sandboxes/Watch",
];

/// The name of a method that does not exist: what a caller makes up is neither logged nor counted by.
const UNKNOWN: &str = "unknown";

/// The name a path has in the audit log and the metrics.
fn method(path: &str) -> &'static str {
    let name = path.strip_prefix(PACKAGE).unwrap_or_default();
    METHODS.into_iter().find(|method| *method == name).unwrap_or(UNKNOWN)
}

/// The routes, behind their admission.
#[derive(Clone)]
pub(super) struct Admission {
    pub context: CallContext,
    pub routes: Routes,
}

type Answer = Pin<Box<dyn Future<Output = Result<Response<Body>, Infallible>> + Send>>;

impl Service<Request<Body>> for Admission {
    type Response = Response<Body>;
    type Error = Infallible;
    type Future = Answer;

    fn poll_ready(&mut self, cx: &mut Context<'_>) -> Poll<Result<(), Infallible>> {
        Service::<Request<Body>>::poll_ready(&mut self.routes, cx)
    }

    fn call(&mut self, request: Request<Body>) -> Answer {
        let connection = ConnectionInfo::of(request.extensions());
        if PUBLIC.iter().any(|service| request.uri().path().starts_with(service)) {
            return self.public(&connection, request);
        }
        let name = method(request.uri().path());
        match call_record::begin(&self.context, name, &connection, request.headers()) {
            Ok((call, None)) => self.admitted(call, request),
            Ok((call, Some(standing))) => self.with_token(call, standing, STREAMS.contains(&name), request),
            // The request is dropped here, and with it whatever its sender would still send.
            Err(refused) => Box::pin(ready(Ok(refused.into_http()))),
        }
    }
}

impl Admission {
    /// The routes as another face calls them.
    pub(super) fn handler(&self) -> Handler {
        let admission = self.clone();
        Handler::new(move |request| {
            let answering = admission.clone().call(request.map(Body::new));
            async move {
                match answering.await {
                    Ok(answer) => answer.map(axum::body::Body::new),
                    Err(never) => match never {},
                }
            }
        })
    }

    fn admitted(&mut self, call: AdmittedCall, mut request: Request<Body>) -> Answer {
        request.extensions_mut().insert(call.clone());
        let answering = self.routes.call(request);
        Box::pin(async move {
            let answer = answering.await?;
            Ok(match call.answered(answer.headers()) {
                Some(instead) => instead.into_http(),
                None => answer,
            })
        })
    }

    fn with_token(
        &mut self,
        call: AdmittedCall,
        standing: Standing,
        streams: bool,
        request: Request<Body>,
    ) -> Answer {
        let mut answering = self.admitted(call.clone(), request);
        Box::pin(async move {
            let answer = tokio::select! {
                answer = &mut answering => answer?,
                () = standing.clone().lost() => {
                    call.revoke();
                    return Ok(status::unauthenticated().into_http());
                }
            };
            if !streams {
                return Ok(answer);
            }
            let lost = async move {
                standing.lost().await;
                call.revoke();
            };
            Ok(answer.map(|body| Body::new(RevocableBody::new(body, last_word, lost))))
        })
    }

    fn public(&mut self, connection: &ConnectionInfo, request: Request<Body>) -> Answer {
        let Ok(place) = Arc::clone(&connection.public_calls).try_acquire_owned() else {
            return Box::pin(ready(Ok(status::too_many_public_calls().into_http())));
        };
        let answering = self.routes.call(request);
        Box::pin(async move {
            let answer = answering.await?;
            // The place is taken as long as the answer goes on.
            Ok(answer.map(|body| {
                Body::new(body.map_frame(move |frame| {
                    let _taken = &place;
                    frame
                }))
            }))
        })
    }
}

/// What ends a stream whose token is gone.
fn last_word() -> Result<Frame<Bytes>, Status> {
    let mut trailers = HeaderMap::new();
    status::unauthenticated().add_header(&mut trailers)?;
    Ok(Frame::trailers(trailers))
}

#[cfg(test)]
mod tests;
