//! The worker's end of a connection's socket, for what is told on it: events, and the bytes for the guest.
//!
//! Bytes wait until they are flushed, and what they have added to the sums is told before them. An event is sent at once
//! where there is room, and in its place before everything that comes later.

use std::io;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll, ready};
use std::time::Duration;

use bytes::{Buf as _, BytesMut};
use tokio::net::UnixStream;
use tokio::time::timeout;

use super::event::Event;
use super::frames::{self, Kind, head};
use crate::network::journal::{CassetteTrouble, ConnectionState, ConnectionView, GatewayRequest};
use crate::network::traffic::Traffic;

/// Bytes for the guest that wait to be flushed.
pub(super) const WAITING: usize = frames::MAX;
/// How long the supervisor may take to hear the last of it.
const LAST_WORDS: Duration = Duration::from_secs(10);

/// Tells the supervisor of one connection.
#[derive(Debug)]
pub struct Teller {
    pub(super) socket: UnixStream,
    out: Mutex<Out>,
}

#[derive(Debug, Default)]
struct Out {
    /// Frames that are on their way.
    frames: BytesMut,
    /// Bytes for the guest.
    data: BytesMut,
    /// Whose sums are told, once it was decided about.
    traffic: Option<Arc<Traffic>>,
    /// What was told of them.
    told: (u64, u64),
    /// It was said that the guest is told no more.
    ended: bool,
}

impl Out {
    fn frame(&mut self, kind: Kind, bytes: &[u8]) {
        self.frames.extend_from_slice(&head(kind, bytes.len()));
        self.frames.extend_from_slice(bytes);
    }

    fn event(&mut self, event: &Event) {
        // Text and numbers are always JSON.
        let text = serde_json::to_vec(event).unwrap_or_default();
        self.frame(Kind::Event, &text);
    }

    /// Tells what has moved, if more has.
    fn moved(&mut self) {
        let now = self.traffic.as_ref().map(|traffic| (traffic.sums().up(), traffic.sums().down()));
        if let Some((up, down)) = now.filter(|now| *now != self.told) {
            self.told = (up, down);
            self.event(&Event::Moved { up, down });
        }
    }

    /// Puts what waits for the guest on its way.
    fn seal(&mut self) {
        self.moved();
        if !self.data.is_empty() {
            let data = self.data.split();
            self.frame(Kind::Data, &data);
        }
    }
}

impl Teller {
    pub(super) fn new(socket: UnixStream) -> Self {
        Self { socket, out: Mutex::default() }
    }

    fn out(&self) -> MutexGuard<'_, Out> {
        self.out.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Sends as much as there is room for.
    fn send(&self, out: &mut Out) -> io::Result<bool> {
        while !out.frames.is_empty() {
            match self.socket.try_write(&out.frames) {
                Ok(sent) => out.frames.advance(sent),
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => return Ok(false),
                Err(error) => return Err(error),
            }
        }
        Ok(true)
    }

    fn tell(&self, event: &Event) {
        let mut out = self.out();
        out.event(event);
        // A supervisor that is gone hears nothing, and the next read or write says so.
        let _ = self.send(&mut out);
    }

    pub(in crate::network) fn claimed(&self, execution: u64) {
        self.tell(&Event::Claimed { execution });
    }

    pub(in crate::network) fn request(&self) {
        self.tell(&Event::Request);
    }

    pub(in crate::network) fn gateway(&self, request: &GatewayRequest<'_>) {
        let GatewayRequest { service, outcome, cost } = *request;
        self.tell(&Event::Gateway { service: service.to_owned(), outcome: outcome.to_owned(), cost });
    }

    pub(in crate::network) fn cassette_trouble(&self, trouble: &CassetteTrouble<'_>) {
        let [cassette, host, why] = [trouble.cassette, trouble.host, trouble.why].map(str::to_owned);
        self.tell(&Event::CassetteTrouble { cassette, host, why });
    }

    /// A connection was decided about, or has ended.
    pub(in crate::network) fn connection(&self, view: &ConnectionView, traffic: &Arc<Traffic>) {
        if let ConnectionState::Closed { denial, .. } = &view.state {
            self.out().moved();
            return self.tell(&Event::Closed { denial: denial.clone() });
        }
        self.out().traffic = Some(Arc::clone(traffic));
        let (host, policy, state) = (view.host.clone(), view.policy.clone(), view.state.clone());
        self.tell(&Event::Decided { host, port: view.port, policy, state });
    }

    /// Tells what has moved towards the server.
    pub(super) fn moved(&self) {
        let mut out = self.out();
        // While there is no room it waits: these are sums, and the next has all of it.
        if out.frames.is_empty() {
            out.moved();
        }
        let _ = self.send(&mut out);
    }

    /// Takes bytes for the guest.
    pub(super) fn poll_write(&self, context: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        loop {
            let mut out = self.out();
            let room = WAITING.saturating_sub(out.data.len());
            if room > 0 {
                let taken = room.min(bytes.len());
                out.data.extend_from_slice(&bytes[..taken]);
                return Poll::Ready(Ok(taken));
            }
            drop(out);
            ready!(self.poll_flush(context))?;
        }
    }

    pub(super) fn poll_flush(&self, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        loop {
            let mut out = self.out();
            if out.frames.is_empty() {
                out.seal();
            }
            match (self.send(&mut out)?, out.data.is_empty()) {
                (true, true) => return Poll::Ready(Ok(())),
                (true, false) => {}
                (false, _) => {
                    drop(out);
                    ready!(self.socket.poll_write_ready(context))?;
                }
            }
        }
    }

    /// Says that the guest is told no more, after everything before. Complete when that is on its way: nobody sends
    /// it later, and the guest may wait for it with all it has to say.
    pub(super) fn poll_end(&self, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        ready!(self.poll_flush(context))?;
        let mut out = self.out();
        if !std::mem::replace(&mut out.ended, true) {
            out.frame(Kind::End, &[]);
        }
        drop(out);
        self.poll_flush(context)
    }

    /// Says that nothing follows at all.
    pub(super) async fn finish(&self) {
        self.out().moved();
        self.tell(&Event::Ended);
        let heard = std::future::poll_fn(|context| self.poll_flush(context));
        let _ = timeout(LAST_WORDS, heard).await;
    }
}

#[cfg(test)]
mod tests {
    //! What is said where there is no room for it.

    use std::pin::pin;

    use futures::poll;
    use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};

    use super::*;
    use crate::network::worker::guest::Guest;

    #[tokio::test]
    async fn the_end_of_a_connection_is_said_when_there_is_room_for_it() {
        let (ours, mut theirs) = UnixStream::pair().unwrap();
        let teller = Arc::new(Teller::new(ours));
        let filled = fill(&teller).await;
        let mut guest = Guest::new(Arc::clone(&teller));
        let mut ending = pin!(guest.shutdown());
        assert!(poll!(ending.as_mut()).is_pending(), "it is taken for said");
        theirs.read_exact(&mut vec![0; filled]).await.unwrap();
        ending.await.unwrap();
        let mut last = [0xff; 5];
        theirs.read_exact(&mut last).await.unwrap();
        assert_eq!(last, head(Kind::End, 0), "and said once");
        assert_eq!(theirs.try_read(&mut last).unwrap_err().kind(), io::ErrorKind::WouldBlock);
    }

    /// Writes until the socket takes no more, and tells how much that was.
    async fn fill(teller: &Teller) -> usize {
        let mut filled = 0;
        teller.socket.writable().await.unwrap();
        while let Ok(sent) = teller.socket.try_write(&[0; 4096]) {
            filled += sent;
        }
        filled
    }
}
