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
const PIECE: usize = 64 * 1024;
/// How long the worker may take to tell the last of a connection whose guest is gone.
const LAST_WORDS: Duration = Duration::from_secs(10);

/// How long a guest may take nothing of what it is sent: longer than the worker waits for anything. The worker ends a
/// connection over which nothing moves, which is not seen here while the guest is waited for.
const STUCK: Duration = Duration::from_secs(3700);

/// How a connection ended.
enum End {
    /// As the worker says.
    Told,
    /// The guest is gone, or stands still.
    GuestGone,
    /// The worker is gone.
    WorkerGone,
    /// The worker says what makes no sense.
    Nonsense(String),
}

/// Carries one stream to its end. It is reset where the worker is gone, or takes no more, and when its sandbox is paused.
pub(in crate::network) async fn carry<S: AsyncRead + AsyncWrite + Unpin>(
    stream: S,
    gate: &Gate,
    paused: impl Future<Output = ()>,
) {
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
        // First: one that is paused by now has asked nothing.
        biased;
        () = paused => End::GuestGone,
        ended = listen(&mut from_worker, &mut to_guest, &mut heard) => ended,
        ended = speaking => ended,
    };
    let ended = match ended {
        End::GuestGone => {
            // One that stands still finds its end when it goes on, however long the worker takes.
            drop((from_guest, to_guest));
            // The worker sees that it is gone, and what has moved until then is still told.
            drop(to_worker);
            let mut nobody = tokio::io::sink();
            let last = listen(&mut from_worker, &mut nobody, &mut heard);
            timeout(LAST_WORDS, last).await.unwrap_or(End::GuestGone)
        }
        ended => ended,
    };
    if let End::Nonsense(nonsense) = ended {
        via.distrust(nonsense);
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

async fn pass_on(bytes: &[u8], to: &mut (impl AsyncWrite + Unpin)) -> io::Result<()> {
    let writing = async {
        to.write_all(bytes).await?;
        to.flush().await
    };
    timeout(STUCK, writing).await.unwrap_or_else(|_| Err(io::ErrorKind::TimedOut.into()))
}

/// Passes on what the worker has for the guest, and hears what it tells, until it has told all.
async fn listen(
    from: &mut Frames<impl AsyncRead + Unpin>,
    to: &mut (impl AsyncWrite + Unpin),
    heard: &mut Heard<'_>,
) -> End {
    loop {
        let (kind, bytes) = match from.next().await {
            Ok(frame) => frame,
            Err(error) if error.kind() == io::ErrorKind::InvalidData => {
                return End::Nonsense(error.to_string());
            }
            Err(_) => return End::WorkerGone,
        };
        let passed_on = match kind {
            Kind::Data => pass_on(&bytes, to).await,
            Kind::End => to.shutdown().await,
            Kind::Event => match serde_json::from_slice(&bytes) {
                Ok(Event::Ended) => return End::Told,
                Ok(event) => match heard.event(event) {
                    Ok(()) => Ok(()),
                    Err(nonsense) => return End::Nonsense(nonsense.to_string()),
                },
                // What is wrong with it may have words of the guest's in it.
                Err(_) => return End::Nonsense("an event of no kind".to_owned()),
            },
        };
        if passed_on.is_err() {
            return End::GuestGone;
        }
    }
}

#[cfg(test)]
mod tests {
    //! The supervisor's end, with a worker that this test is.

    use std::sync::Arc;

    use super::*;
    use crate::network::Egress;
    use crate::network::worker::frames;

    fn frame(kind: Kind, bytes: &[u8]) -> Vec<u8> {
        [&frames::head(kind, bytes.len())[..], bytes].concat()
    }

    fn event(event: &Event) -> Vec<u8> {
        frame(Kind::Event, &serde_json::to_vec(event).unwrap())
    }

    /// What becomes of a connection whose worker says this, and what the guest was sent.
    async fn heard(said: &[Vec<u8>]) -> (End, Vec<u8>) {
        let egress = Egress::default();
        let gate = Arc::new(egress.gate(egress.policy("").unwrap(), None));
        let said = said.concat();
        let mut to_guest = Vec::new();
        let ended = listen(&mut Frames::new(&said[..]), &mut to_guest, &mut Heard::new(&gate)).await;
        (ended, to_guest)
    }

    #[tokio::test]
    async fn bytes_go_on_until_the_worker_has_told_all_and_nonsense_ends_it() {
        let hello = || frame(Kind::Data, b"hello");
        let (ended, sent) = heard(&[hello(), event(&Event::Ended), hello()]).await;
        assert!(matches!(ended, End::Told) && sent == b"hello", "{sent:?}");
        let (ended, sent) = heard(&[hello(), hello()]).await;
        assert!(matches!(ended, End::WorkerGone) && sent == b"hellohello", "{sent:?}");
        let nonsense = [
            event(&Event::Closed { denial: None }),
            frame(Kind::Event, b"{\"made_up\":{}}"),
            frame(Kind::Event, b""),
            frames::head(Kind::Data, frames::MAX + 1).to_vec(),
        ];
        for wrong in nonsense {
            let (ended, sent) = heard(&[wrong.clone(), hello()]).await;
            assert!(matches!(ended, End::Nonsense(_)) && sent.is_empty(), "{wrong:?}");
        }
    }

    #[tokio::test]
    async fn a_guest_that_has_said_all_is_told_apart_from_one_that_is_gone() {
        let mut to_worker = Vec::new();
        speak(&mut &b"hello"[..], &mut to_worker).await.unwrap();
        assert_eq!(to_worker, [frame(Kind::Data, b"hello"), frame(Kind::End, b"")].concat());
        struct Gone;
        impl AsyncRead for Gone {
            fn poll_read(
                self: std::pin::Pin<&mut Self>,
                _: &mut std::task::Context<'_>,
                _: &mut tokio::io::ReadBuf<'_>,
            ) -> std::task::Poll<io::Result<()>> {
                std::task::Poll::Ready(Err(io::ErrorKind::ConnectionReset.into()))
            }
        }
        let mut to_worker = Vec::new();
        assert!(speak(&mut Gone, &mut to_worker).await.is_err());
        assert!(to_worker.is_empty(), "an end is said that the guest did not say");
    }
}
