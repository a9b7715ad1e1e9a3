//! Reads one output stream of a program: collected, kept, and sent live where that was asked for.

use std::io;
use std::sync::Arc;

use bytes::Bytes;
use rekindle_protocol::limits::CHUNK_BYTES;
use rekindle_protocol::output::{Collected, Collector};
use rekindle_protocol::wire::response::Reply;
use rekindle_protocol::wire::{self, OutputStream};
use tokio::sync::{Mutex, OwnedMutexGuard, mpsc, watch};

use crate::exec::spill::{Spill, Spills};
use crate::exec::stdio::Channel;

/// Most programs print little: buffers start small and grow with the first full read.
const SMALL_BUFFER: usize = 4 * 1024;

/// The most a pipe can hold for an unprivileged program: what was written before the end is within it.
const MOST_LEFT: usize = 1024 * 1024;

/// One stream being read.
pub struct Pump {
    /// Where the bytes come from.
    pub channel: Channel,
    /// Which stream it is.
    pub stream: OutputStream,
    /// Makes the text of the result.
    pub collector: Collector,
    /// Keeps the bytes of both streams.
    pub spills: Arc<Mutex<Spills>>,
    /// Takes live output.
    pub live: Option<mpsc::Sender<Reply>>,
}

/// What came of a stream.
pub struct Pumped {
    /// The text.
    pub collected: Collected,
    stream: OutputStream,
    spills: Arc<Mutex<Spills>>,
}

impl Pumped {
    /// The exact bytes.
    pub async fn spill(&self) -> Spill {
        self.spills.lock().await.take(self.stream)
    }
}

impl Pump {
    /// Reads until the end. Once the program has `ended` only what is already there is read: a background
    /// child that holds the stream open does not hold up the result. Its later output is read and dropped,
    /// so that it never dies of a broken pipe.
    pub async fn run(mut self, mut ended: watch::Receiver<bool>) -> Pumped {
        let mut buffer = vec![0; SMALL_BUFFER];
        loop {
            let read = tokio::select! {
                biased;
                _ = ended.wait_for(|ended| *ended) => break,
                read = self.channel.read(&mut buffer) => read,
            };
            match read {
                Ok(n) if n > 0 => self.take(&mut buffer, n).await,
                Ok(_) | Err(_) => return self.done(),
            }
        }
        // Bounded, since a child that floods the stream may fill it again faster than it is read.
        let mut left = MOST_LEFT;
        while left > 0 {
            match self.channel.read_now(&mut buffer) {
                Ok(Some(n)) if n > 0 => {
                    left = left.saturating_sub(n);
                    self.take(&mut buffer, n).await;
                }
                Ok(None) => break,
                Ok(Some(_)) | Err(_) => return self.done(),
            }
        }
        let Self { channel, stream, collector, spills, .. } = self;
        tokio::spawn(drain(channel));
        Pumped { collected: collector.finish(), stream, spills }
    }

    async fn take(&mut self, buffer: &mut Vec<u8>, n: usize) {
        let bytes = &buffer[..n];
        self.collector.push(bytes);
        let mut spills = Some(Arc::clone(&self.spills).lock_owned().await);
        if let Some(full) = spills.take_if(|spills| spills.push(self.stream, bytes)) {
            spills = written(full).await;
        }
        if let Some(live) = &self.live {
            let data = Bytes::copy_from_slice(bytes);
            let output = wire::Output { stream: self.stream as i32, data };
            // A host that is gone cancels the execution by another way.
            let _ = live.send(Reply::Output(output)).await;
        }
        // Only now: what the host is told comes in the order in which it was kept.
        drop(spills);
        if n == buffer.len() && n < CHUNK_BYTES {
            buffer.resize(CHUNK_BYTES, 0);
        }
    }

    fn done(self) -> Pumped {
        Pumped { collected: self.collector.finish(), stream: self.stream, spills: self.spills }
    }
}

/// Has a thread that may block on the disk write what waits.
async fn written(mut spills: OwnedMutexGuard<Spills>) -> Option<OwnedMutexGuard<Spills>> {
    let writing = tokio::task::spawn_blocking(move || {
        spills.write();
        spills
    });
    writing.await.ok()
}

/// Reads and forgets until nobody holds the stream any more.
async fn drain(channel: Channel) -> io::Result<()> {
    let mut buffer = vec![0; SMALL_BUFFER];
    while channel.read(&mut buffer).await? > 0 {}
    Ok(())
}
