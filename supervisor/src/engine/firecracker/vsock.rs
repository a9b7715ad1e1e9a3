//! The channel to the agent: a unix socket on which a connection asks for a port of the guest.
//!
//! ```text
//! host: connect, "CONNECT <port>\n" ──▶ monitor ──▶ the guest's listener
//!              "OK <number>\n"      ◀──
//! guest's agent, once it listens: connects to the host's ready port ──▶ agent.sock_<port>
//! ```

use std::io::{self, IoSlice};
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;

use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt, ReadBuf};
use tokio::net::{UnixListener, UnixStream};
use tokio::sync::{OwnedSemaphorePermit, Semaphore, watch};
use tokio::time::{Instant, timeout};

use super::jail::{AGENT, Jail};
use super::socket;
use crate::engine::{EngineError, Operation};

/// The port the agent listens on.
pub(super) const AGENT_PORT: u32 = 1024;
/// The host's port that the agent connects to once it listens.
pub(super) const READY_PORT: u32 = 1025;
/// The guest's address. Monitors do not share a bus, so all guests have the same.
pub(super) const GUEST_CID: u32 = 3;
/// How long the guest may take to accept a connection.
const ACCEPT_DEADLINE: Duration = Duration::from_secs(30);
/// An answer within this came from the guest, not from the monitor's patience.
const PROMPT: Duration = Duration::from_secs(1);
/// Times the guest may say no.
const MAX_REFUSALS: u32 = 3;
/// The longest answer to a request for a port: `OK` and a number.
const MAX_ANSWER: usize = 32;

/// The agent's end of a machine.
#[derive(Debug)]
pub(super) struct AgentSocket {
    /// Set once the agent listens.
    ready: watch::Receiver<bool>,
    /// One connection at a time.
    turn: Arc<Semaphore>,
}

impl AgentSocket {
    /// For a guest whose agent listened before the snapshot was taken.
    pub(super) fn listening() -> Self {
        Self { ready: watch::channel(true).1, turn: Arc::new(Semaphore::new(1)) }
    }

    /// For a guest that boots: waits for its agent's sign on a socket that exists before the guest does.
    pub(super) fn booting(jail: &Jail, operation: Operation) -> Result<Self, EngineError> {
        let name = format!("{AGENT}_{READY_PORT}");
        let listener = UnixListener::bind(jail.socket(&name))
            .map_err(EngineError::file(operation, &jail.run_dir().join(&name)))?;
        jail.give(operation, &name)?;
        let (announce, ready) = watch::channel(false);
        tokio::spawn(async move {
            tokio::select! {
                accepted = listener.accept() => {
                    let _ = announce.send(accepted.is_ok());
                }
                () = announce.closed() => {}
            }
        });
        Ok(Self { ready, turn: Arc::new(Semaphore::new(1)) })
    }

    /// Connects to the agent, once it listens and nobody else is connected.
    pub(super) async fn dial(&self, jail: &Jail) -> Result<AgentStream, EngineError> {
        const DIAL: Operation = Operation::Dial;
        let failed = EngineError::file(DIAL, &jail.run_dir().join(AGENT));
        let connect = async {
            let turn = Arc::clone(&self.turn).acquire_owned().await.map_err(io::Error::other)?;
            self.ready.clone().wait_for(|ready| *ready).await.map_err(io::Error::other)?;
            let Ok(asked) = timeout(ACCEPT_DEADLINE, ask(jail)).await else { return Ok(None) };
            Ok(Some(AgentStream { stream: asked?, _turn: turn }))
        };
        let late = EngineError::Deadline { operation: DIAL, after: ACCEPT_DEADLINE };
        connect.await.map_err(failed)?.ok_or(late)
    }
}

/// Asks for the agent's port until the guest has answered. The monitor gives a guest two seconds, which one that
/// wakes up on a busy host can miss without anything being wrong; who listens is known from before the snapshot.
async fn ask(jail: &Jail) -> io::Result<UnixStream> {
    let mut refusals = 0;
    loop {
        let asked = Instant::now();
        let mut stream = socket::connect(&jail.socket(AGENT)).await?;
        stream.write_all(format!("CONNECT {AGENT_PORT}\n").as_bytes()).await?;
        match accepted(&mut stream).await {
            Ok(()) => return Ok(stream),
            Err(error) if error.kind() != io::ErrorKind::ConnectionRefused => return Err(error),
            // An answer at once is the guest's own no.
            Err(error) if asked.elapsed() < PROMPT => {
                refusals += 1;
                if refusals >= MAX_REFUSALS {
                    return Err(error);
                }
            }
            Err(_) => tracing::debug!("the guest did not answer in the monitor's time; asking again"),
        }
    }
}

/// Reads the monitor's answer. Nothing can follow it: an agent never speaks first.
async fn accepted(stream: &mut (impl AsyncRead + Unpin)) -> io::Result<()> {
    let mut answer = Vec::with_capacity(MAX_ANSWER);
    let mut stream = stream.take(MAX_ANSWER as u64);
    while !answer.ends_with(b"\n") {
        if stream.read_buf(&mut answer).await? == 0 {
            let (kind, what) = match stream.limit() {
                0 => (io::ErrorKind::InvalidData, "the monitor's answer is too long"),
                _ => (io::ErrorKind::ConnectionRefused, "nothing in the guest listens"),
            };
            return Err(io::Error::new(kind, what));
        }
    }
    if answer.starts_with(b"OK ") && answer.iter().filter(|byte| **byte == b'\n').count() == 1 {
        return Ok(());
    }
    Err(io::Error::new(io::ErrorKind::InvalidData, "the monitor's answer is not understood"))
}

/// A connection to the agent. The next one is made when this is gone.
#[derive(Debug)]
pub(super) struct AgentStream {
    stream: UnixStream,
    _turn: OwnedSemaphorePermit,
}

impl AsyncRead for AgentStream {
    fn poll_read(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_read(context, buffer)
    }
}

impl AsyncWrite for AgentStream {
    fn poll_write(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.stream).poll_write(context, bytes)
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        parts: &[IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.stream).poll_write_vectored(context, parts)
    }

    fn is_write_vectored(&self) -> bool {
        self.stream.is_write_vectored()
    }

    fn poll_flush(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_flush(context)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_shutdown(context)
    }
}

#[cfg(test)]
mod tests;
