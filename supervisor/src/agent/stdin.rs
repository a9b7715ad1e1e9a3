//! Live standard input of an execution: a writer of its own, so that a program that does not read can never
//! keep its caller from receiving what it prints.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use bytes::Bytes;
use rekindle_protocol::frame;
use rekindle_protocol::limits::CHUNK_BYTES;
use rekindle_protocol::mux::Stream;
use rekindle_protocol::wire::ExecuteInput;
use tokio::io::WriteHalf;
use tokio::sync::mpsc;
use tokio_util::task::AbortOnDropHandle;
use tracing::Instrument as _;

/// The program takes no more input: it has ended, or its execution was given up.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("the execution takes no more input")]
pub struct StdinClosed;

/// Writes to a program's standard input. Only [`eof`](Self::eof) ends the input: a writer that is dropped, with a
/// caller that broke off, leaves the program waiting for more until its execution is given up.
#[derive(Debug)]
pub struct StdinWriter {
    pieces: mpsc::Sender<Bytes>,
    ended: Arc<AtomicBool>,
}

impl StdinWriter {
    /// Hands over bytes; waits while the program has not read what came before.
    ///
    /// # Errors
    /// When the program takes no more.
    pub async fn send(&mut self, mut data: Bytes) -> Result<(), StdinClosed> {
        while !data.is_empty() {
            let piece = data.split_to(data.len().min(CHUNK_BYTES));
            self.pieces.send(piece).await.map_err(|_| StdinClosed)?;
        }
        Ok(())
    }

    /// Ends the input, once all that was sent has been read.
    pub fn eof(self) {
        self.ended.store(true, Ordering::Release);
    }
}

/// The task that writes. It holds the stream, and is stopped with whoever holds it.
pub(super) type Pump = AbortOnDropHandle<()>;

/// Moves what the writer sends to the agent.
pub(super) fn start(mut stream: WriteHalf<Stream>) -> (StdinWriter, Pump) {
    let (pieces, mut waiting) = mpsc::channel::<Bytes>(1);
    let ended = Arc::new(AtomicBool::new(false));
    let said = Arc::clone(&ended);
    let run = async move {
        while let Some(data) = waiting.recv().await {
            if frame::write(&mut stream, &ExecuteInput { data, eof: false }).await.is_err() {
                // Why is for the reading side to find out.
                return;
            }
        }
        if said.load(Ordering::Acquire) {
            let _ = frame::write(&mut stream, &ExecuteInput { data: Bytes::new(), eof: true }).await;
        }
    };
    let pump = AbortOnDropHandle::new(tokio::spawn(run.in_current_span()));
    (StdinWriter { pieces, ended }, pump)
}
