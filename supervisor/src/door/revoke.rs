//! A call ends when its token does: removed, replaced, narrowed or expired. What was let in is not let in for ever.
//!
//! ```text
//! admitted ──▶ handler ──▶ answer, or a stream of answers ──▶ end
//!     └── token no longer in force ──▶ refused; whatever the call did is dropped
//! ```

use std::future::pending;
use std::pin::Pin;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll};
use std::time::Duration;

use bytes::Bytes;
use futures::task::AtomicWaker;
use hyper::body::{Body, Frame};
use jiff::Timestamp;
use tokio::sync::watch;
use tokio::time::sleep;
use tokio_util::task::AbortOnDropHandle;

use crate::config::tokens::{Token, Tokens};

/// Longest time without a look at the clock, which may be set.
const LOOK_AGAIN: Duration = Duration::from_secs(60);
/// Shortest, so that a clock that stands still is not asked without end.
const NOT_SOONER: Duration = Duration::from_millis(10);

/// The token a call was admitted with, and the tokens there are.
#[derive(Debug, Clone)]
pub(crate) struct Standing {
    pub token: Token,
    pub tokens: watch::Receiver<Arc<Tokens>>,
}

impl Standing {
    /// Waits until the token is no longer in force.
    pub(crate) async fn lost(mut self) {
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

/// What a reader hears in place of the rest.
type LastWord<B> = fn() -> Result<Frame<Bytes>, <B as Body>::Error>;

/// A stream of answers that ends with its caller's token, also while the caller does not read.
pub(crate) struct RevocableBody<B: Body<Data = Bytes>> {
    shared: Arc<Shared<B>>,
    last_word: Option<LastWord<B>>,
    _waiting: AbortOnDropHandle<()>,
}

struct Shared<B> {
    /// Gone when the token is.
    body: Mutex<Option<B>>,
    reader: AtomicWaker,
}

impl<B> Shared<B> {
    fn body(&self) -> MutexGuard<'_, Option<B>> {
        self.body.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl<B: Body<Data = Bytes> + Send + 'static> RevocableBody<B> {
    /// Drops `body` when `lost` is done; `lost` says before that whatever is to be said.
    pub(crate) fn new(
        body: B,
        last_word: LastWord<B>,
        lost: impl Future<Output = ()> + Send + 'static,
    ) -> Self {
        let shared = Arc::new(Shared { body: Mutex::new(Some(body)), reader: AtomicWaker::new() });
        let watched = Arc::clone(&shared);
        let waiting = tokio::spawn(async move {
            lost.await;
            // Dropped outside of the lock: with it go the program or the file behind it.
            let body = watched.body().take();
            drop(body);
            watched.reader.wake();
        });
        Self { shared, last_word: Some(last_word), _waiting: AbortOnDropHandle::new(waiting) }
    }
}

impl<B: Body<Data = Bytes> + Unpin> Body for RevocableBody<B> {
    type Data = Bytes;
    type Error = B::Error;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, B::Error>>> {
        self.shared.reader.register(cx.waker());
        if let Some(body) = &mut *self.shared.body() {
            return Pin::new(body).poll_frame(cx);
        }
        Poll::Ready(self.last_word.take().map(|last_word| last_word()))
    }

    fn is_end_stream(&self) -> bool {
        self.shared.body().as_ref().is_some_and(Body::is_end_stream)
    }
}
