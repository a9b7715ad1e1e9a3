//! Whether anything is under way on a connection.

use std::pin::Pin;
use std::task::{Context, Poll};
use std::time::Duration;

use axum::body::{Body, Bytes, HttpBody};
use axum::http::Response;
use hyper::body::{Frame, SizeHint};
use tokio::sync::watch;
use tokio::time::timeout;

/// What a connection is used for.
#[derive(Debug, Default)]
pub(super) struct Activity {
    requests: watch::Sender<Requests>,
}

/// Requests on one connection.
#[derive(Debug, Default)]
struct Requests {
    /// That have come. A short one is seen by this alone.
    begun: u64,
    /// That are under way, their answers' bodies included.
    under_way: usize,
}

impl Activity {
    /// A request has come.
    pub(super) fn begin(&self) -> Busy {
        self.requests.send_modify(|requests| {
            requests.begun += 1;
            requests.under_way += 1;
        });
        Busy { requests: self.requests.clone() }
    }

    /// Waits until there was no request for so long. The first one has limits of its own.
    pub(super) fn idle_for(&self, time: Duration) -> impl Future<Output = ()> + Send + use<> {
        let mut requests = self.requests.subscribe();
        async move {
            // Its end is that of the connection, which nobody waits for then.
            let _ = requests.wait_for(|requests| requests.begun > 0).await;
            loop {
                let begun = match requests.wait_for(|requests| requests.under_way == 0).await {
                    Ok(requests) => requests.begun,
                    Err(_) => return,
                };
                let another = requests.wait_for(|requests| requests.begun != begun);
                if timeout(time, another).await.is_err() {
                    return;
                }
            }
        }
    }
}

/// A request under way.
#[derive(Debug)]
pub(super) struct Busy {
    requests: watch::Sender<Requests>,
}

impl Busy {
    /// Has it last as long as the answer.
    pub(super) fn until_the_end_of(self, answer: Response<Body>) -> Response<Body> {
        answer.map(|body| Body::new(BusyBody { body, _busy: self }))
    }
}

impl Drop for Busy {
    fn drop(&mut self) {
        self.requests.send_modify(|requests| requests.under_way -= 1);
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

#[cfg(test)]
mod tests {
    use super::*;

    const IDLE: Duration = Duration::from_secs(60);
    const SECOND: Duration = Duration::from_secs(1);

    #[tokio::test(start_paused = true)]
    async fn it_is_idle_after_the_last_request_however_short_and_never_before_the_first() {
        let activity = Activity::default();
        let mut idle = Box::pin(activity.idle_for(IDLE));
        assert!(timeout(10 * IDLE, &mut idle).await.is_err(), "nothing has come yet");
        drop(activity.begin());
        assert!(timeout(IDLE - SECOND, &mut idle).await.is_err());
        drop(activity.begin());
        assert!(timeout(IDLE - SECOND, &mut idle).await.is_err(), "a short request counts");
        let long = activity.begin();
        assert!(timeout(10 * IDLE, &mut idle).await.is_err(), "one is under way");
        drop(long);
        timeout(2 * IDLE, idle).await.expect("idle at last");
    }
}
