//! A call ends when its token does: removed, replaced, narrowed or expired. What was let in is not let in for ever.
//!
//! ```text
//! admitted ──▶ handler ──▶ answer, or a stream of answers ──▶ end
//!     └── token no longer in force ──▶ `UNAUTHENTICATED`; whatever the call did is dropped
//! ```

use std::future::pending;
use std::pin::Pin;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll};
use std::time::Duration;

use bytes::Bytes;
use futures::task::AtomicWaker;
use hyper::body::{Body as HttpBody, Frame};
use jiff::Timestamp;
use tokio::sync::watch;
use tokio::time::sleep;
use tokio_util::task::AbortOnDropHandle;
use tonic::Status;
use tonic::body::Body;
use tonic::codegen::http::HeaderMap;

use super::status;
use crate::config::tokens::{Token, Tokens};

/// Longest time without a look at the clock, which may be set.
const LOOK_AGAIN: Duration = Duration::from_secs(60);
/// Shortest, so that a clock that stands still is not asked without end.
const NOT_SOONER: Duration = Duration::from_millis(10);

/// The token a call was admitted with, and the tokens there are.
#[derive(Debug, Clone)]
pub(super) struct Standing {
    pub token: Token,
    pub tokens: watch::Receiver<Arc<Tokens>>,
}

impl Standing {
    /// Waits until the token is no longer in force.
    pub(super) async fn lost(mut self) {
        loop {
            let now = Timestamp::now();
            let expires = match self.tokens.borrow_and_update().in_force(&self.token, now) {
                Some(token) => token.expires,
                None => return,
            };
            let expired = async {
                match expires {
                    Some(at) => {
                        let left = Duration::try_from(at.duration_since(now)).unwrap_or_default();
                        sleep(left.clamp(NOT_SOONER, LOOK_AGAIN)).await;
                    }
                    None => pending().await,
                }
            };
            tokio::select! {
                changed = self.tokens.changed() => if changed.is_err() {
                    // Nobody reads tokens any more: the service ends.
                    return pending().await;
                },
                () = expired => {}
            }
        }
    }
}

/// A stream of answers that ends with its caller's token, also while the caller does not read.
pub(super) struct RevocableBody {
    shared: Arc<Shared>,
    told: bool,
    _waiting: AbortOnDropHandle<()>,
}

struct Shared {
    /// Gone when the token is.
    body: Mutex<Option<Body>>,
    reader: AtomicWaker,
}

impl Shared {
    fn body(&self) -> MutexGuard<'_, Option<Body>> {
        self.body.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl RevocableBody {
    /// Drops `body` when `lost` is done; `lost` says before that whatever is to be said.
    pub(super) fn new(body: Body, lost: impl Future<Output = ()> + Send + 'static) -> Self {
        let shared = Arc::new(Shared { body: Mutex::new(Some(body)), reader: AtomicWaker::new() });
        let watched = Arc::clone(&shared);
        let waiting = tokio::spawn(async move {
            lost.await;
            // Dropped outside of the lock: with it go the program or the file behind it.
            let body = watched.body().take();
            drop(body);
            watched.reader.wake();
        });
        Self { shared, told: false, _waiting: AbortOnDropHandle::new(waiting) }
    }
}

impl HttpBody for RevocableBody {
    type Data = Bytes;
    type Error = Status;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, Status>>> {
        self.shared.reader.register(cx.waker());
        if let Some(body) = &mut *self.shared.body() {
            return Pin::new(body).poll_frame(cx);
        }
        if std::mem::replace(&mut self.told, true) {
            return Poll::Ready(None);
        }
        let mut trailers = HeaderMap::new();
        let told = status::unauthenticated().add_header(&mut trailers);
        Poll::Ready(Some(told.map(|()| Frame::trailers(trailers))))
    }

    fn is_end_stream(&self) -> bool {
        self.shared.body().as_ref().is_some_and(HttpBody::is_end_stream)
    }
}
