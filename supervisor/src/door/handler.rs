//! A face as another one sees it: something that answers requests. Whoever starts both hands one to the other, so that
//! neither knows the other by name.

use std::fmt;
use std::pin::Pin;
use std::sync::Arc;

use axum::body::Body;
use axum::http::{Request, Response};

type Answering = Pin<Box<dyn Future<Output = Response<Body>> + Send>>;

/// Answers requests. The connection a request came on is among its extensions; who calls is for the handler to find
/// out, from the headers, before it reads anything of the body.
#[derive(Clone)]
pub struct Handler(Arc<dyn Fn(Request<Body>) -> Answering + Send + Sync>);

impl Handler {
    pub(crate) fn new<F>(answer: impl Fn(Request<Body>) -> F + Send + Sync + 'static) -> Self
    where
        F: Future<Output = Response<Body>> + Send + 'static,
    {
        Self(Arc::new(move |request| Box::pin(answer(request))))
    }

    pub(crate) fn call(&self, request: Request<Body>) -> impl Future<Output = Response<Body>> + Send + use<> {
        (self.0)(request)
    }
}

impl fmt::Debug for Handler {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Handler").finish_non_exhaustive()
    }
}
