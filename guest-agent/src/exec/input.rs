//! Feeds standard input: bytes known from the start, or frames the caller sends.

use bytes::Bytes;
use rekindle_protocol::frame;
use rekindle_protocol::limits::MAX_CHUNK_BYTES;
use rekindle_protocol::wire::ExecuteInput;
use tokio::io::AsyncRead;
use tokio::sync::mpsc;

use crate::exec::stdio::Channel;

/// Typing this ends the input of a terminal.
const END_OF_TRANSMISSION: &[u8] = b"\x04";

/// Writes pieces to the program until there are no more, or it no longer reads; then closes its input.
pub async fn feed(channel: Channel, mut pieces: mpsc::Receiver<Bytes>, terminal: bool) {
    while let Some(piece) = pieces.recv().await {
        if channel.write_all(&piece).await.is_err() {
            return;
        }
    }
    if terminal {
        let _ = channel.write_all(END_OF_TRANSMISSION).await;
    }
}

/// Reads what the host sends on an execute stream. Returns when the host is gone or breaks the rules: either
/// way the execution is cancelled.
pub async fn listen(stream: &mut (impl AsyncRead + Unpin), mut pieces: Option<mpsc::Sender<Bytes>>) {
    while let Ok(Some(input)) = frame::read::<ExecuteInput>(stream).await {
        if input.data.len() > MAX_CHUNK_BYTES {
            return;
        }
        if let Some(sender) = &pieces
            && !input.data.is_empty()
            && sender.send(input.data).await.is_err()
        {
            // The program has closed its input; what else comes is for nobody.
            pieces = None;
        }
        if input.eof {
            pieces = None;
        }
    }
}
