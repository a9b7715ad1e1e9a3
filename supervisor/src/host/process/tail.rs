//! The last bytes of a stream that may never end.
//!
//! A monitor's messages and a guest's serial console are written by code that is not trusted; whatever
//! they print, the supervisor keeps a fixed amount. Used by [`super::spawn`] and by engines.

use std::collections::VecDeque;
use std::future::poll_fn;
use std::io;
use std::pin::Pin;
use std::sync::{Arc, Mutex, PoisonError};
use std::task::{Context, Poll, ready};
use std::time::Duration;

use tokio::io::{AsyncRead, ReadBuf};
use tokio::sync::watch;
use tokio::time::sleep;

/// Bytes read at once: a pipe that is full is empty after four.
const READ_BYTES: usize = 16 * 1024;
/// How long a stream rests after each read.
const PACE: Duration = Duration::from_millis(5);

/// A shared, bounded window on the end of a byte stream.
#[derive(Debug, Clone)]
pub struct Tail {
    ring: Arc<Mutex<VecDeque<u8>>>,
    limit: usize,
    /// How many bytes there have been.
    total: Arc<watch::Sender<u64>>,
}

impl Tail {
    /// An empty window that keeps at most `limit` bytes.
    #[must_use]
    pub fn new(limit: usize) -> Self {
        Self { ring: Arc::default(), limit, total: Arc::default() }
    }

    /// Tells whoever asks when the stream goes on.
    #[must_use]
    pub fn progress(&self) -> Progress {
        Progress { total: self.total.subscribe() }
    }

    /// Adds bytes and forgets the oldest ones beyond the limit.
    pub fn push(&self, bytes: &[u8]) {
        self.window(bytes);
        self.total.send_modify(|total| *total += bytes.len() as u64);
    }

    fn window(&self, bytes: &[u8]) {
        let bytes = &bytes[bytes.len().saturating_sub(self.limit)..];
        let mut ring = self.ring.lock().unwrap_or_else(PoisonError::into_inner);
        let excess = (ring.len() + bytes.len()).saturating_sub(self.limit);
        ring.drain(..excess);
        ring.extend(bytes);
    }

    /// What is in the window now.
    #[must_use]
    pub fn bytes(&self) -> Vec<u8> {
        self.ring.lock().unwrap_or_else(PoisonError::into_inner).iter().copied().collect()
    }

    /// The window as trimmed text; bytes that are not UTF-8 are replaced.
    #[must_use]
    pub fn text(&self) -> String {
        String::from_utf8_lossy(&self.bytes()).trim().to_owned()
    }

    /// Reads `source` until it ends or fails, keeping its tail. Reads at a bounded pace: whoever prints without end
    /// waits, and costs this process next to nothing.
    pub async fn drain(self, mut source: impl AsyncRead + Unpin) {
        while let Ok(1..) = poll_fn(|context| self.read_once(&mut source, context)).await {
            sleep(PACE).await;
        }
    }

    /// Reads what there is. The space for it is nobody's while there is nothing to read.
    fn read_once(
        &self,
        source: &mut (impl AsyncRead + Unpin),
        context: &mut Context<'_>,
    ) -> Poll<io::Result<usize>> {
        let mut space = [0; READ_BYTES];
        let mut buffer = ReadBuf::new(&mut space);
        ready!(Pin::new(source).poll_read(context, &mut buffer))?;
        let read = buffer.filled();
        if !read.is_empty() {
            self.push(read);
        }
        Poll::Ready(Ok(read.len()))
    }
}

/// Waits for a stream to go on.
#[derive(Debug)]
pub struct Progress {
    total: watch::Receiver<u64>,
}

impl Progress {
    /// Returns once there are bytes that were not there when this was called last, or made. Never, when
    /// there will be none.
    pub async fn more(&mut self) {
        if self.total.changed().await.is_err() {
            std::future::pending::<()>().await;
        }
    }
}
