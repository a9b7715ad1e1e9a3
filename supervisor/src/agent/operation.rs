//! One operation on one stream: sends its request, receives replies. Every verb is written with it.
//!
//! Dropping an [`Operation`] resets its stream, which cancels it in the guest. Streams are never half-closed
//! by the host: to the agent, the end of the host's half *is* the cancellation. Only what has become a connection to a
//! port ([`Operation::into_raw`]) has halves that end.

use std::sync::Arc;
use std::time::Duration;

use bytes::BytesMut;
use rekindle_protocol::frame::{self, FrameError};
use rekindle_protocol::limits::{MAX_FRAME_BYTES, MAX_MESSAGE_BYTES};
use rekindle_protocol::mux::{MAX_BODY_BYTES, RawStream, Stream};
use rekindle_protocol::wire::{PingRequest, Request, Response, request::Op, response::Reply};
use tokio::io::{AsyncReadExt as _, ReadHalf, WriteHalf};
use tokio::sync::OwnedSemaphorePermit;
use tokio::time::{Instant, timeout_at};

use super::bulk::UnderWayCall;
use super::client::{AgentClient, Lane, Session};
use super::error::{AgentError, Refusal};
use super::patience::{Overdue, deadline};
use crate::host::untrusted::printable;

/// How much is read from a stream at once: a whole piece of a file with what is around it, which is then not copied
/// to make room for its last bytes.
const READ_BYTES: usize = MAX_BODY_BYTES;
/// Bytes of a frame's length prefix.
const PREFIX: usize = 4;

/// An operation under way.
#[derive(Debug)]
pub(super) struct Operation {
    name: &'static str,
    began: Instant,
    session: Arc<Session>,
    reader: ReadHalf<Stream>,
    /// What has arrived of the next reply, kept here so that a wait can be abandoned and taken up again.
    buffer: BytesMut,
    writer: Option<WriteHalf<Stream>>,
    _permit: OwnedSemaphorePermit,
    /// Transfers of programs wait for it for a moment.
    _goes_first: Option<UnderWayCall>,
}

/// What is left of an operation whose frames have been exchanged.
#[derive(Debug)]
pub(super) struct Raw {
    pub(super) stream: RawStream,
    /// What came behind the last frame.
    pub(super) arrived: BytesMut,
    /// What must be held as long as the stream.
    pub(super) _held: (Arc<Session>, OwnedSemaphorePermit),
}

impl Operation {
    /// Opens a stream and sends the request.
    pub(super) async fn begin(
        session: &Arc<Session>,
        name: &'static str,
        lane: Lane,
        op: Op,
        deadline: Instant,
    ) -> Result<Self, AgentError> {
        let began = Instant::now();
        let goes_first = session.goes_first(lane);
        let (stream, permit) = session.open(name, lane, deadline).await?;
        let (reader, writer) = tokio::io::split(stream);
        let mut operation = Self {
            name,
            began,
            session: Arc::clone(session),
            reader,
            buffer: BytesMut::new(),
            writer: Some(writer),
            _permit: permit,
            _goes_first: goes_first,
        };
        operation.send(&Request { op: Some(op) }, deadline).await?;
        Ok(operation)
    }

    async fn send(&mut self, request: &Request, deadline: Instant) -> Result<(), AgentError> {
        let Some(writer) = &mut self.writer else {
            return Err(self.invalid("its input is written elsewhere"));
        };
        match timeout_at(deadline, frame::write(writer, request)).await {
            Ok(Ok(())) => Ok(()),
            Ok(Err(FrameError::TooLarge { length })) => Err(AgentError::Invalid {
                operation: self.name,
                what: format!("a message of {length} bytes exceeds the limit of {MAX_FRAME_BYTES}").into(),
            }),
            Ok(Err(_)) => Err(self.last_words().await),
            Err(_) => Err(self.silent()),
        }
    }

    /// The next reply. Can be abandoned and called again without losing anything.
    pub(super) async fn receive(&mut self, deadline: Option<Instant>) -> Result<Reply, AgentError> {
        let response = match deadline {
            None => self.response().await,
            Some(deadline) => match timeout_at(deadline, self.response()).await {
                Ok(response) => response,
                Err(_) => return Err(self.silent()),
            },
        };
        match response?.reply {
            Some(Reply::Error(error)) => Err(AgentError::Refused {
                operation: self.name,
                kind: Refusal::from_wire(error.code),
                message: printable(&error.message, MAX_MESSAGE_BYTES),
            }),
            Some(reply) => Ok(reply),
            None => Err(self.violated("a reply of no known kind")),
        }
    }

    /// The next reply, of an agent that has to show signs of life once the reply is overdue: one that hangs is given
    /// up long before one that is slow. Can be abandoned and called again without losing anything.
    pub(super) async fn receive_overdue(&mut self, overdue: &mut Overdue) -> Result<Reply, AgentError> {
        while overdue.suspect < overdue.deadline {
            match self.receive(Some(overdue.suspect)).await {
                Err(AgentError::Silent { .. }) => {}
                received => return received,
            }
            let session = Arc::clone(&self.session);
            let alive = tokio::select! {
                biased;
                received = self.receive(Some(overdue.deadline)) => return received,
                alive = is_alive(&session, overdue.sign_of_life) => alive,
            };
            if !alive {
                return Err(self.silent());
            }
            overdue.suspect = deadline(overdue.suspicion);
        }
        self.receive(Some(overdue.deadline)).await
    }

    /// Hands out the half that writes, for a task of its own.
    pub(super) fn take_writer(&mut self) -> Option<WriteHalf<Stream>> {
        self.writer.take()
    }

    /// The stream for bytes as they are, from here on, with those that have arrived.
    pub(super) fn into_raw(self) -> Result<Raw, AgentError> {
        let Some(writer) = self.writer else {
            return Err(AgentError::Invalid {
                operation: self.name,
                what: "its input is written elsewhere".into(),
            });
        };
        let stream = RawStream::new(self.reader.unsplit(writer));
        Ok(Raw { stream, arrived: self.buffer, _held: (self.session, self._permit) })
    }

    /// The agent sent something it must not send.
    pub(super) fn violated(&self, what: &'static str) -> AgentError {
        AgentError::Protocol { operation: self.name, what: what.into() }
    }

    /// The agent sent a reply that has no place here.
    pub(super) fn unexpected(&self, reply: &Reply) -> AgentError {
        let kind = match reply {
            Reply::Error(_) => "error",
            Reply::Hello(_) => "hello",
            Reply::Pong(_) => "pong",
            Reply::Done(_) => "done",
            Reply::Started(_) => "started",
            Reply::Output(_) => "output",
            Reply::Result(_) => "result",
            Reply::File(_) => "file",
            Reply::Chunk(_) => "chunk",
            Reply::End(_) => "end",
            Reply::Listing(_) => "listing",
            Reply::Events(_) => "events",
        };
        AgentError::Protocol { operation: self.name, what: format!("an unexpected {kind} reply").into() }
    }

    /// The caller asked for something that cannot be sent.
    pub(super) fn invalid(&self, what: &'static str) -> AgentError {
        AgentError::Invalid { operation: self.name, what: what.into() }
    }

    /// The agent has been waited for long enough.
    pub(super) fn silent(&self) -> AgentError {
        AgentError::Silent { operation: self.name, waited: self.began.elapsed() }
    }

    /// Why a stream takes no more: an agent that refuses says so before it closes.
    pub(super) async fn last_words(&mut self) -> AgentError {
        match self.receive(Some(deadline(Duration::from_secs(1)))).await {
            Err(refused @ AgentError::Refused { .. }) => refused,
            _ => self.session.broken(self.name).await,
        }
    }

    async fn response(&mut self) -> Result<Response, AgentError> {
        let meter = Arc::clone(&self.session.meter);
        meter.run(self.next_response()).await
    }

    async fn next_response(&mut self) -> Result<Response, AgentError> {
        loop {
            if let Some(frame) = self.whole_frame()? {
                return frame::decode_prefixed(frame.freeze())
                    .map_err(|_| self.violated("a reply that cannot be decoded"));
            }
            self.buffer.reserve(READ_BYTES);
            match self.reader.read_buf(&mut self.buffer).await {
                Ok(0) | Err(_) if self.buffer.is_empty() => {
                    return Err(self.session.broken(self.name).await);
                }
                Ok(0) | Err(_) => {
                    // Half a reply and then the end: the session's fault, or else the agent's.
                    return Err(match self.session.broken(self.name).await {
                        lost @ AgentError::Lost { .. } => lost,
                        _ => self.violated("a reply that ends half-way"),
                    });
                }
                Ok(_) => {}
            }
        }
    }

    /// Splits a whole frame off the buffer, as soon as it is there; refuses one that is too long at once.
    fn whole_frame(&mut self) -> Result<Option<BytesMut>, AgentError> {
        let Some(prefix) = self.buffer.first_chunk::<PREFIX>() else { return Ok(None) };
        let length = u32::from_be_bytes(*prefix) as usize;
        if length > MAX_FRAME_BYTES {
            return Err(self.violated("a reply that exceeds the limit of a frame"));
        }
        let whole = PREFIX + length;
        Ok((self.buffer.len() >= whole).then(|| self.buffer.split_to(whole)))
    }
}

/// Whether the agent says anything at all within this time.
async fn is_alive(session: &Arc<Session>, within: Duration) -> bool {
    let deadline = deadline(within);
    let said = async {
        let ping = Op::Ping(PingRequest {});
        Operation::begin(session, "ping", Lane::Call, ping, deadline).await?.receive(Some(deadline)).await
    };
    !matches!(said.await, Err(AgentError::Silent { .. } | AgentError::Lost { .. }))
}

impl AgentClient {
    /// Opens a stream for one operation of this client's.
    pub(super) async fn begin(
        &self,
        name: &'static str,
        lane: Lane,
        op: Op,
        deadline: Instant,
    ) -> Result<Operation, AgentError> {
        Operation::begin(&self.session, name, lane, op, deadline).await
    }

    /// One request, one reply.
    pub(super) async fn call(
        &self,
        name: &'static str,
        op: Op,
        within: Duration,
    ) -> Result<(Operation, Reply), AgentError> {
        let deadline = deadline(within);
        let mut operation = self.begin(name, Lane::Call, op, deadline).await?;
        let reply = operation.receive(Some(deadline)).await?;
        Ok((operation, reply))
    }

    /// One request that is answered by nothing but success.
    pub(super) async fn command(
        &self,
        name: &'static str,
        op: Op,
        within: Duration,
    ) -> Result<(), AgentError> {
        match self.call(name, op, within).await? {
            (_, Reply::Done(_)) => Ok(()),
            (operation, other) => Err(operation.unexpected(&other)),
        }
    }
}

#[cfg(test)]
mod tests;
