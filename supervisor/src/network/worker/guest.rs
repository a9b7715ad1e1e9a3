//! The guest, as the worker sees it: a stream of bytes like any other.

use std::io;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};

use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};

use super::frames::{HEAD, Kind, read_head};
use super::teller::Teller;

/// The stream of one guest's connection.
pub(super) struct Guest {
    teller: Arc<Teller>,
    head: [u8; HEAD],
    /// Bytes of it that were read.
    filled: usize,
    /// Bytes of the frame that are still to come.
    rest: usize,
    /// It has said all.
    said_all: bool,
}

impl Guest {
    pub(super) fn new(teller: Arc<Teller>) -> Self {
        Self { teller, head: [0; HEAD], filled: 0, rest: 0, said_all: false }
    }

    /// Reads into a place; not from a supervisor that is gone.
    fn poll_some(&mut self, context: &mut Context<'_>, into: &mut [u8]) -> Poll<io::Result<usize>> {
        loop {
            match self.teller.socket.try_read(into) {
                // Whoever has said all says so.
                Ok(0) => return Poll::Ready(Err(io::ErrorKind::ConnectionReset.into())),
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => {}
                done => return Poll::Ready(done),
            }
            ready!(self.teller.socket.poll_read_ready(context))?;
        }
    }
}

impl AsyncRead for Guest {
    fn poll_read(
        self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let this = self.get_mut();
        // What was read before has gone on by now.
        this.teller.moved();
        while this.rest == 0 && !this.said_all {
            let mut head = this.head;
            let read = ready!(this.poll_some(context, &mut head[this.filled..]))?;
            (this.head, this.filled) = (head, this.filled + read);
            if this.filled == HEAD {
                this.filled = 0;
                match read_head(this.head)? {
                    (Kind::Data, length) => this.rest = length,
                    (Kind::End, _) => this.said_all = true,
                    (Kind::Event, _) => return Poll::Ready(Err(io::ErrorKind::InvalidData.into())),
                }
            }
        }
        if this.said_all || buffer.remaining() == 0 {
            return Poll::Ready(Ok(()));
        }
        let most = this.rest.min(buffer.remaining());
        let place = buffer.initialize_unfilled_to(most);
        let read = ready!(this.poll_some(context, place))?;
        this.rest -= read;
        buffer.advance(read);
        Poll::Ready(Ok(()))
    }
}

impl AsyncWrite for Guest {
    fn poll_write(self: Pin<&mut Self>, context: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        self.teller.poll_write(context, bytes)
    }

    fn poll_flush(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        self.teller.poll_flush(context)
    }

    fn poll_shutdown(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        self.teller.poll_end(context)
    }
}
