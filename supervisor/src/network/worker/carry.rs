//! The supervisor's end of a connection: moves bytes between the guest's stream and the worker, and puts what the worker
//! tells on the way into the journal. Looks at no byte of the guest's.

use std::io;
use std::time::Duration;

use tokio::io::{AsyncRead, AsyncReadExt as _, AsyncWrite, AsyncWriteExt as _};
use tokio::net::UnixStream;
use tokio::time::timeout;

use super::event::Event;
use super::frames::{Frames, HEAD, Kind, head};
use super::heard::Heard;
use crate::network::gate::Gate;

/// Bytes of the guest's that are moved at once.
const PIECE: usize = 16 * 1024;
/// How long the worker may take to tell the last of a connection whose guest is gone.
const LAST_WORDS: Duration = Duration::from_secs(10);

/// How a connection ended.
enum End {
    /// As the worker says.
    Told,
    /// The guest is gone.
    GuestGone,
    /// The worker is gone, or says what makes no sense.
    WorkerGone,
}

/// Carries one stream to its end. It is reset where the worker is gone, or takes no more.
pub(in crate::network) async fn carry<S: AsyncRead + AsyncWrite + Unpin>(stream: S, gate: &Gate) {
    let Some(via) = &gate.via else { return };
    let Ok((ours, theirs)) = UnixStream::pair() else { return };
    // Held to the end: who starts the next worker waits for what this one has told.
    let Some(_place) = via.hand_over(gate.source(), theirs) else { return };
    let (mut from_guest, mut to_guest) = tokio::io::split(stream);
    let (from_worker, mut to_worker) = ours.into_split();
    let mut from_worker = Frames::new(from_worker);
    let mut heard = Heard::new(gate);
    let speaking = async {
        match speak(&mut from_guest, &mut to_worker).await {
            // The worker is what ends it.
            Ok(()) => std::future::pending().await,
            Err(_) => End::GuestGone,
        }
    };
    let ended = tokio::select! {
        ended = listen(&mut from_worker, &mut to_guest, &mut heard) => ended,
        ended = speaking => ended,
    };
    if matches!(ended, End::GuestGone) {
        // The worker sees that it is gone, and what has moved until then is still told.
        drop(to_worker);
        let _ = timeout(LAST_WORDS, listen(&mut from_worker, &mut tokio::io::sink(), &mut heard)).await;
    }
}

/// Passes on what the guest says, until it has said all.
async fn speak(from: &mut (impl AsyncRead + Unpin), to: &mut (impl AsyncWrite + Unpin)) -> io::Result<()> {
    let mut piece = vec![0; HEAD + PIECE];
    loop {
        let read = from.read(&mut piece[HEAD..]).await?;
        let kind = if read == 0 { Kind::End } else { Kind::Data };
        piece[..HEAD].copy_from_slice(&head(kind, read));
        to.write_all(&piece[..HEAD + read]).await?;
        if read == 0 {
            return Ok(());
        }
    }
}

/// Passes on what the worker has for the guest, and hears what it tells, until it has told all.
async fn listen(
    from: &mut Frames<impl AsyncRead + Unpin>,
    to: &mut (impl AsyncWrite + Unpin),
    heard: &mut Heard<'_>,
) -> End {
    loop {
        let Ok((kind, bytes)) = from.next().await else { return End::WorkerGone };
        let passed_on = match kind {
            Kind::Data => {
                async {
                    to.write_all(&bytes).await?;
                    to.flush().await
                }
                .await
            }
            Kind::End => to.shutdown().await,
            Kind::Event => match serde_json::from_slice(&bytes) {
                Ok(Event::Ended) => return End::Told,
                Ok(event) => match heard.event(event) {
                    Ok(()) => Ok(()),
                    Err(nonsense) => {
                        tracing::error!(%nonsense, "the network's worker says what makes no sense");
                        return End::WorkerGone;
                    }
                },
                Err(_) => return End::WorkerGone,
            },
        };
        if passed_on.is_err() {
            return End::GuestGone;
        }
    }
}
