//! Bodies as they pass: a request's is counted and hashed, an answer's recorded.

use std::pin::Pin;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll};

use bytes::{Buf as _, Bytes};
use http_body_util::combinators::UnsyncBoxBody;
use http_body_util::{BodyExt as _, Full, StreamBody};
use hyper::body::{Body, Frame, Incoming, SizeHint};
use sha2::{Digest as _, Sha256};
use tokio::sync::mpsc;
use tokio_util::task::AbortOnDropHandle;

use crate::network::cassette::{NotRecorded, Part, digest_of};

/// The body of an answer, wherever it comes from.
pub(super) type Answer = UnsyncBoxBody<Bytes, Broken>;

/// Why an answer ends before its end.
#[derive(Debug, thiserror::Error)]
#[error("the answer broke off")]
pub(super) struct Broken;

/// All of a body at once.
pub(super) fn whole(content: impl Into<Bytes>) -> Answer {
    Full::new(content.into()).map_err(|never| match never {}).boxed_unsync()
}

/// What of a request's body has passed.
#[derive(Debug, Clone, Default)]
pub(super) struct Passed(Arc<Mutex<Sum>>);

#[derive(Debug, Default)]
struct Sum {
    hasher: Sha256,
    bytes: u64,
    ended: bool,
}

impl Passed {
    fn lock(&self) -> MutexGuard<'_, Sum> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Digest and length, once all of it has passed.
    pub(super) fn all(&self) -> Option<(String, u64)> {
        let sum = self.lock();
        sum.ended.then(|| (digest_of(sum.hasher.clone()), sum.bytes))
    }
}

/// A request's body that is hashed as it passes. Trailers are not passed on.
#[derive(Debug)]
pub(super) struct Hashed<B> {
    inner: B,
    passed: Passed,
}

impl<B: Body> Hashed<B> {
    pub(super) fn new(inner: B) -> (Self, Passed) {
        let passed = Passed::default();
        passed.lock().ended = inner.is_end_stream();
        (Self { inner, passed: passed.clone() }, passed)
    }
}

impl<B: Body<Data = Bytes> + Unpin> Body for Hashed<B> {
    type Data = Bytes;
    type Error = B::Error;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, B::Error>>> {
        let this = &mut *self;
        let frame = match Pin::new(&mut this.inner).poll_frame(context) {
            Poll::Pending => return Poll::Pending,
            Poll::Ready(Some(Err(error))) => return Poll::Ready(Some(Err(error))),
            Poll::Ready(Some(Ok(frame))) => frame.into_data().ok(),
            Poll::Ready(None) => None,
        };
        let mut sum = this.passed.lock();
        let Some(data) = frame else {
            sum.ended = true;
            return Poll::Ready(None);
        };
        sum.hasher.update(&data);
        sum.bytes = sum.bytes.saturating_add(data.remaining() as u64);
        sum.ended = this.inner.is_end_stream();
        Poll::Ready(Some(Ok(Frame::data(data))))
    }

    fn is_end_stream(&self) -> bool {
        self.inner.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.inner.size_hint()
    }
}

/// Reads a request's body to its end and keeps nothing but its digest.
pub(super) async fn digest(body: Incoming) -> Result<String, hyper::Error> {
    let mut body = body;
    let mut hasher = Sha256::new();
    while let Some(frame) = body.frame().await {
        if let Ok(data) = frame?.into_data() {
            hasher.update(&data);
        }
    }
    Ok(digest_of(hasher))
}

/// Who takes an answer's body for a cassette.
pub(super) trait Record: Send + 'static {
    /// All of it is there.
    fn finish(self, part: Part) -> impl Future<Output = Result<(), NotRecorded>> + Send;
    /// It is not recorded, or no further.
    fn give_up(&self, why: &NotRecorded);
}

/// Passes an answer's body on as it comes, and records it. Its end is passed on once it is recorded, so who has read all
/// of it finds it in the cassette.
pub(super) fn recorded<R: Record + Sync>(
    body: Incoming,
    part: Part,
    record: R,
    driver: AbortOnDropHandle<()>,
) -> Answer {
    let (sender, mut receiver) = mpsc::channel::<Result<Bytes, Broken>>(1);
    let passing = AbortOnDropHandle::new(tokio::spawn(pass(body, part, record, sender)));
    let stream = futures::stream::poll_fn(move |context| {
        // Both end with the body.
        let _held = (&passing, &driver);
        receiver.poll_recv(context).map(|piece| piece.map(|piece| piece.map(Frame::data)))
    });
    StreamBody::new(stream).boxed_unsync()
}

async fn pass<R: Record + Sync>(
    mut body: Incoming,
    part: Part,
    record: R,
    sender: mpsc::Sender<Result<Bytes, Broken>>,
) {
    // Who is told a length takes the last byte for the end.
    let length = body.size_hint().exact();
    let mut recording = Some((part, record));
    let mut seen: u64 = 0;
    loop {
        let data = match body.frame().await {
            None => break,
            Some(Err(_)) => {
                let _ = sender.send(Err(Broken)).await;
                return;
            }
            Some(Ok(frame)) => match frame.into_data() {
                Ok(data) => data,
                Err(_) => continue,
            },
        };
        seen = seen.saturating_add(data.len() as u64);
        if let Some((part, record)) = &mut recording
            && let Err(why) = part.write(&data).await
        {
            record.give_up(&why);
            recording = None;
        }
        if length == Some(seen) {
            finish(&mut recording).await;
        }
        if sender.send(Ok(data)).await.is_err() {
            return;
        }
    }
    finish(&mut recording).await;
}

async fn finish<R: Record>(recording: &mut Option<(Part, R)>) {
    if let Some((part, record)) = recording.take() {
        // What went wrong was told.
        let _ = record.finish(part).await;
    }
}
