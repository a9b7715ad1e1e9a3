//! Whether anything is under way on a connection.

use std::pin::Pin;
use std::task::{Context, Poll};
use std::time::Duration;

use axum::body::{Body, Bytes, HttpBody};
use axum::http::Response;
use hyper::body::{Frame, SizeHint};
use tokio::sync::watch;
use tokio::time::timeout;

/// Requests under way on one connection, their answers' bodies included.
#[derive(Debug, Default)]
pub(super) struct Activity {
    requests: watch::Sender<usize>,
}

impl Activity {
    /// A request has come.
    pub(super) fn begin(&self) -> Busy {
        self.requests.send_modify(|requests| *requests += 1);
        Busy { requests: self.requests.clone() }
    }

    /// Waits until there was no request for so long. The first one has limits of its own.
    pub(super) fn idle_for(&self, time: Duration) -> impl Future<Output = ()> + Send + use<> {
        let mut requests = self.requests.subscribe();
        async move {
            let _ = requests.wait_for(|requests| *requests > 0).await;
            loop {
                // Its end is that of the connection, which nobody waits for then.
                let _ = requests.wait_for(|requests| *requests == 0).await;
                if timeout(time, requests.wait_for(|requests| *requests > 0)).await.is_err() {
                    return;
                }
            }
        }
    }
}

/// A request under way.
#[derive(Debug)]
pub(super) struct Busy {
    requests: watch::Sender<usize>,
}

impl Busy {
    /// Has it last as long as the answer.
    pub(super) fn until_the_end_of(self, answer: Response<Body>) -> Response<Body> {
        answer.map(|body| Body::new(BusyBody { body, _busy: self }))
    }
}

impl Drop for Busy {
    fn drop(&mut self) {
        self.requests.send_modify(|requests| *requests -= 1);
    }
}

struct BusyBody {
    body: Body,
    _busy: Busy,
}

impl HttpBody for BusyBody {
    type Data = Bytes;
    type Error = axum::Error;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, axum::Error>>> {
        Pin::new(&mut self.body).poll_frame(cx)
    }

    fn is_end_stream(&self) -> bool {
        self.body.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.body.size_hint()
    }
}
