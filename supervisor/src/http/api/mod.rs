//! `rekindle.v1` in JSON, by the Connect protocol: every call of the API for whoever has HTTP and no gRPC.
//!
//! ```text
//! POST /rekindle.v1.<Service>/<Method>
//!   request:  JSON ──▶ protobuf ──▶ ┐
//!                                   ├─ the API's own handler: admission, audit, deadlines, errors
//!   answer:   JSON ◀── protobuf ◀── ┘
//! GET /rekindle.v1/descriptor: what there is to call
//! ```
//!
//! There is nothing about any one call here: messages are turned by the API's description. The handler admits on the
//! headers, and only then reads the body that is turned for it piece by piece. Served by the front, and beside gRPC on
//! the unix socket.

mod answer;
mod describe;
mod exchange;
mod request;
mod status;

pub(crate) use request::there_and_back;

use std::sync::Arc;

use axum::body::Body;
use axum::http::{Request, Response};
use bytes::Bytes;
use prost_reflect::{DescriptorError, DescriptorPool};

use crate::door::Handler;

/// What the paths of all methods begin with.
const METHODS: &str = "/rekindle.v1.";
/// Where the description is.
const DESCRIPTOR: &str = "/rekindle.v1/descriptor";

/// The API in JSON.
#[derive(Debug)]
pub struct Api {
    /// Answers in gRPC.
    handler: Handler,
    pool: DescriptorPool,
    description: Bytes,
}

impl Api {
    /// The API that this handler answers in gRPC.
    ///
    /// # Errors
    /// When its description is damaged.
    pub fn new(handler: Handler) -> Result<Arc<Self>, DescriptorError> {
        let pool = DescriptorPool::decode(rekindle_api::DESCRIPTORS)?;
        Ok(Arc::new(Self { handler, description: describe::description(), pool }))
    }

    /// What answers requests that are for it, for another listener.
    #[must_use]
    pub fn handler(self: &Arc<Self>) -> Handler {
        let api = Arc::clone(self);
        Handler::new(move |request| {
            let api = Arc::clone(&api);
            async move { api.handle(request).await }
        })
    }

    /// Whether a path is for it.
    pub(super) fn has(path: &str) -> bool {
        path == DESCRIPTOR || path.starts_with(METHODS)
    }

    /// Answers a request.
    pub(super) async fn handle(&self, request: Request<Body>) -> Response<Body> {
        match request.uri().path() {
            DESCRIPTOR => describe::handle(self, &request),
            _ => exchange::handle(self, request).await,
        }
    }
}
