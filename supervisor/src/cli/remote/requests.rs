//! The sending side of a call with a stream of requests. The stream ends only when it is told to: a sender
//! that fails halfway and goes away must not make what it sent look complete.

use futures::Stream;
use futures::stream::unfold;
use tokio::sync::mpsc;

/// Requests that wait to be sent.
const WAITING: usize = 4;

/// Hands requests to a call.
#[derive(Debug, Clone)]
pub struct Requests<T>(mpsc::Sender<Option<T>>);

/// The call has ended and takes no more.
#[derive(Debug, PartialEq, Eq)]
pub struct Closed;

/// A sender, and the stream a call takes.
pub fn requests<T: Send + 'static>() -> (Requests<T>, impl Stream<Item = T> + Send + 'static) {
    let (sender, receiver) = mpsc::channel(WAITING);
    let stream =
        unfold(receiver, async |mut receiver: mpsc::Receiver<Option<T>>| match receiver.recv().await {
            Some(Some(request)) => Some((request, receiver)),
            Some(None) => None,
            None => std::future::pending().await,
        });
    (Requests(sender), stream)
}

impl<T> Requests<T> {
    /// Sends one, once there is room.
    pub async fn send(&self, request: T) -> Result<(), Closed> {
        self.0.send(Some(request)).await.map_err(|_| Closed)
    }

    /// Says that it was all.
    pub async fn end(&self) -> Result<(), Closed> {
        self.0.send(None).await.map_err(|_| Closed)
    }
}

#[cfg(test)]
mod tests {
    //! When the stream ends.

    use futures::{FutureExt as _, StreamExt as _};

    use super::*;

    #[tokio::test]
    async fn a_stream_ends_when_it_is_told_to() {
        let (sender, stream) = requests();
        sender.send(1).await.expect("open");
        sender.end().await.expect("open");
        assert_eq!(stream.collect::<Vec<u8>>().await, [1]);
    }

    #[tokio::test]
    async fn a_sender_that_goes_away_does_not_end_its_stream() {
        let (sender, stream) = requests();
        sender.send(1).await.expect("open");
        drop(sender);
        let mut stream = Box::pin(stream);
        assert_eq!(stream.next().await, Some(1));
        tokio::task::yield_now().await;
        assert_eq!(stream.next().now_or_never(), None, "it waits for ever");
    }

    #[tokio::test]
    async fn a_call_that_has_ended_takes_no_more() {
        let (sender, stream) = requests();
        drop(stream);
        assert_eq!(sender.send(1).await, Err(Closed));
    }
}
