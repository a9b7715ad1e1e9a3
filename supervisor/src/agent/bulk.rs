//! The streams that a guest opens, for connections to the outside. One that moves bytes in bulk lets short calls go
//! first.
//!
//! A transfer at full speed keeps every processor between a server and a program busy, on the host and in the guest. So
//! while a call has begun a moment ago, what follows of a transfer waits until the call has ended, or until that moment
//! is over: who runs something short gets its answer, and a transfer loses no more than these moments. What a program
//! asks and is answered in its first moment is no transfer yet, and never waits.

use std::collections::BTreeMap;
use std::io;
use std::pin::Pin;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll, ready};
use std::time::Duration;

use rekindle_protocol::mux::Stream;
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::sync::Notify;
use tokio::time::{Instant, timeout_at};

/// How long a transfer waits for a call that has begun, at most: several times what a short one takes.
const MOMENT: Duration = Duration::from_millis(20);
/// Bytes in one direction that make it a transfer.
const TRANSFER: usize = 256 * 1024;

/// The calls of one session that are under way.
#[derive(Debug, Default)]
pub(super) struct Calls {
    under_way: Mutex<UnderWay>,
    ended: Notify,
}

#[derive(Debug, Default)]
struct UnderWay {
    next: u64,
    /// Until when transfers wait for each.
    until: BTreeMap<u64, Instant>,
}

/// A call that is under way, until it is dropped.
#[derive(Debug)]
pub(super) struct UnderWayCall {
    calls: Arc<Calls>,
    number: u64,
}

impl Calls {
    fn lock(&self) -> MutexGuard<'_, UnderWay> {
        self.under_way.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// A call begins.
    pub(super) fn begin(self: &Arc<Self>) -> UnderWayCall {
        let mut under_way = self.lock();
        let number = under_way.next;
        under_way.next += 1;
        under_way.until.insert(number, Instant::now() + MOMENT);
        drop(under_way);
        UnderWayCall { calls: Arc::clone(self), number }
    }

    /// Until when transfers wait; nothing when they need not.
    fn until(&self) -> Option<Instant> {
        let now = Instant::now();
        self.lock().until.values().copied().filter(|until| *until > now).max()
    }

    /// Waits for calls that have begun a moment ago; nothing when there is none.
    fn go_first(self: &Arc<Self>) -> Option<impl Future<Output = ()> + Send + use<>> {
        let until = self.until()?;
        let calls = Arc::clone(self);
        let all_ended = async move {
            loop {
                let ended = calls.ended.notified();
                if calls.until().is_none() {
                    return;
                }
                ended.await;
            }
        };
        // Later calls are the next piece's to wait for: a caller that makes one after the other slows a transfer down,
        // and does not stop it.
        Some(async move { drop(timeout_at(until, all_ended).await) })
    }
}

impl Drop for UnderWayCall {
    fn drop(&mut self) {
        self.calls.lock().until.remove(&self.number);
        self.calls.ended.notify_waiters();
    }
}

/// A stream that a guest has opened.
#[derive(Debug)]
pub struct BulkStream {
    stream: Stream,
    calls: Arc<Calls>,
    reading: Turn,
    writing: Turn,
}

impl BulkStream {
    pub(super) fn new(stream: Stream, calls: Arc<Calls>) -> Self {
        Self { stream, calls, reading: Turn::default(), writing: Turn::default() }
    }
}

/// One direction: what it has moved, and the calls that it waits for.
#[derive(Default)]
struct Turn {
    moved: usize,
    waiting: Option<Pin<Box<dyn Future<Output = ()> + Send>>>,
}

impl std::fmt::Debug for Turn {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Turn").field("moved", &self.moved).field("waits", &self.waiting.is_some()).finish()
    }
}

impl Turn {
    fn poll(&mut self, calls: &Arc<Calls>, cx: &mut Context<'_>) -> Poll<()> {
        if self.waiting.is_none() && self.moved >= TRANSFER {
            self.waiting = calls.go_first().map(|calls| Box::pin(calls) as _);
        }
        if let Some(calls) = &mut self.waiting {
            ready!(calls.as_mut().poll(cx));
            self.waiting = None;
        }
        Poll::Ready(())
    }
}

impl AsyncRead for BulkStream {
    fn poll_read(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let Self { stream, calls, reading, .. } = self.get_mut();
        ready!(reading.poll(calls, cx));
        let before = buffer.filled().len();
        ready!(Pin::new(stream).poll_read(cx, buffer))?;
        reading.moved = reading.moved.saturating_add(buffer.filled().len() - before);
        Poll::Ready(Ok(()))
    }
}

impl AsyncWrite for BulkStream {
    fn poll_write(self: Pin<&mut Self>, cx: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        let Self { stream, calls, writing, .. } = self.get_mut();
        ready!(writing.poll(calls, cx));
        let written = ready!(Pin::new(stream).poll_write(cx, bytes))?;
        writing.moved = writing.moved.saturating_add(written);
        Poll::Ready(Ok(written))
    }

    fn poll_flush(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.get_mut().stream).poll_flush(cx)
    }

    fn poll_shutdown(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.get_mut().stream).poll_shutdown(cx)
    }
}

#[cfg(test)]
mod tests;
