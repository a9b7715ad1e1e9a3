//! One call: its request turned and handed on, its answer turned back.

use axum::body::Body;
use axum::http::header::{ALLOW, AUTHORIZATION, CONTENT_TYPE, TE};
use axum::http::request::Parts;
use axum::http::{HeaderMap, HeaderValue, Method, Request, Response, StatusCode, Version};
use prost_reflect::MethodDescriptor;

use super::request::{self, Trouble};
use super::{Api, METHODS, answer};
use crate::door::origin;
use crate::http::connect::{self, ConnectError};

/// Whether a request has one message or frames of them, and its answer likewise.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Shape {
    Unary,
    Stream,
}

impl Shape {
    /// What the content type says.
    fn of(headers: &HeaderMap) -> Option<Self> {
        let kind = headers.get(CONTENT_TYPE)?.to_str().ok()?.split(';').next()?.trim();
        match kind {
            _ if kind.eq_ignore_ascii_case("application/json") => Some(Self::Unary),
            _ if kind.eq_ignore_ascii_case("application/connect+json") => Some(Self::Stream),
            _ => None,
        }
    }

    fn asked_by(method: &MethodDescriptor) -> Self {
        if method.is_client_streaming() || method.is_server_streaming() { Self::Stream } else { Self::Unary }
    }

    /// The answer to a call that never began.
    fn refused(self, error: &ConnectError) -> Response<Body> {
        match self {
            Self::Unary => connect::refused(error),
            Self::Stream => connect::failed(error),
        }
    }
}

pub(super) async fn handle(api: &Api, request: Request<Body>) -> Response<Body> {
    if request.method() != Method::POST {
        let mut answer = empty(StatusCode::METHOD_NOT_ALLOWED);
        answer.headers_mut().insert(ALLOW, HeaderValue::from_static("POST"));
        return answer;
    }
    let Some(shape) = Shape::of(request.headers()) else { return empty(StatusCode::UNSUPPORTED_MEDIA_TYPE) };
    let method = method(api, request.uri().path());
    if method.as_ref().is_some_and(|method| Shape::asked_by(method) != shape) {
        return empty(StatusCode::UNSUPPORTED_MEDIA_TYPE);
    }
    let (parts, body) = request.into_parts();
    let trouble = Trouble::default();
    let body = match &method {
        Some(method) => request::body(shape, &parts, body, method.input(), trouble.clone()),
        // The handler says that there is none, to whom it lets in.
        None => Ok(Body::empty()),
    };
    let asked = match body.and_then(|body| grpc(parts, body)) {
        Ok(asked) => asked,
        Err(error) => return shape.refused(&error),
    };
    let answered = answer::Reader::new(api.handler.call(asked).await, &api.pool, trouble);
    match (shape, method) {
        (Shape::Unary, Some(method)) => answer::unary(answered, &method).await,
        (Shape::Stream, Some(method)) => answer::stream(answered, method),
        (shape, None) => shape.refused(&answered.refusal().await),
    }
}

/// The method that a path names.
fn method(api: &Api, path: &str) -> Option<MethodDescriptor> {
    let (service, method) = path.strip_prefix(METHODS)?.split_once('/')?;
    let service = api.pool.get_service_by_name(&format!("rekindle.v1.{service}"))?;
    service.methods().find(|known| known.name() == method)
}

/// The same call in gRPC: who calls, what it is part of, how long it may take, and the connection it came on.
fn grpc(parts: Parts, body: Body) -> Result<Request<Body>, ConnectError> {
    let timeout = connect::timeout(&parts.headers)?;
    let mut asked = Request::new(body);
    *asked.method_mut() = Method::POST;
    *asked.version_mut() = Version::HTTP_2;
    // Without a query: its handler knows no such thing.
    *asked.uri_mut() = parts.uri.path().parse().map_err(|_| ConnectError::invalid("the path is none"))?;
    let headers = asked.headers_mut();
    headers.insert(CONTENT_TYPE, HeaderValue::from_static("application/grpc"));
    headers.insert(TE, HeaderValue::from_static("trailers"));
    if let Some(shown) = parts.headers.get(AUTHORIZATION) {
        headers.insert(AUTHORIZATION, shown.clone());
    }
    for name in [origin::TRACEPARENT, origin::STEP] {
        for value in parts.headers.get_all(name) {
            headers.append(name, value.clone());
        }
    }
    if let Some(timeout) = timeout {
        // gRPC has eight digits for it.
        let millis = timeout.as_millis();
        let text = if millis < 100_000_000 { format!("{millis}m") } else { format!("{}S", millis / 1000) };
        headers
            .insert("grpc-timeout", text.parse().map_err(|_| ConnectError::invalid("the timeout is none"))?);
    }
    *asked.extensions_mut() = parts.extensions;
    Ok(asked)
}

fn empty(status: StatusCode) -> Response<Body> {
    let mut answer = Response::new(Body::empty());
    *answer.status_mut() = status;
    answer
}
