//! Another face on the listener of gRPC: what is no gRPC goes there. Its clients find the supervisor where the command
//! line finds it, without anything to configure.

use std::convert::Infallible;
use std::future::ready;
use std::pin::Pin;
use std::task::{Context, Poll};

use tonic::body::Body;
use tonic::codegen::Service;
use tonic::codegen::http::header::CONTENT_TYPE;
use tonic::codegen::http::{HeaderMap, Request, Response, StatusCode, Version};

use super::admit::Admission;
use crate::door::Handler;

/// What the content types of gRPC begin with.
const GRPC: &[u8] = b"application/grpc";

/// gRPC, and whatever else is spoken on its listener.
#[derive(Clone)]
pub(super) struct Beside {
    pub grpc: Admission,
    pub other: Option<Handler>,
}

impl Service<Request<Body>> for Beside {
    type Response = Response<Body>;
    type Error = Infallible;
    type Future = Pin<Box<dyn Future<Output = Result<Response<Body>, Infallible>> + Send>>;

    fn poll_ready(&mut self, cx: &mut Context<'_>) -> Poll<Result<(), Infallible>> {
        self.grpc.poll_ready(cx)
    }

    fn call(&mut self, request: Request<Body>) -> Self::Future {
        match &self.other {
            Some(other) if !is_grpc(request.headers()) => {
                let answering = other.call(request.map(axum::body::Body::new));
                Box::pin(async move { Ok(answering.await.map(Body::new)) })
            }
            // HTTP/1.1 has no place for the status with which every answer of gRPC ends.
            Some(_) if request.version() < Version::HTTP_2 => {
                let mut answer = Response::new(Body::empty());
                *answer.status_mut() = StatusCode::HTTP_VERSION_NOT_SUPPORTED;
                Box::pin(ready(Ok(answer)))
            }
            _ => self.grpc.call(request),
        }
    }
}

fn is_grpc(headers: &HeaderMap) -> bool {
    headers.get(CONTENT_TYPE).is_some_and(|kind| kind.as_bytes().starts_with(GRPC))
}
