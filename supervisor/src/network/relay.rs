//! Moves the bytes of a connection that was let through, in both directions, through two buffers of fixed size.
//!
//! What one side does not read is not read from the other. An end of one direction is passed on; the other goes on. A
//! connection over which nothing moves is ended.

use std::io;
use std::time::Duration;

use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt};
use tokio::time::timeout;

use super::gate::Gate;
use super::requests::{RequestError, Requests};
use super::traffic::{BudgetSpent, Traffic, Way};

/// Bytes that are moved at once: as many as fit one frame of the channel. What an execution says may have to wait for them.
const PIECE: usize = 64 * 1024;

/// Why a direction ended before its sender did.
#[derive(Debug, thiserror::Error)]
pub(super) enum RelayError {
    /// A side is gone.
    #[error(transparent)]
    Io(#[from] io::Error),
    /// Nothing moved, in either direction, for too long.
    #[error("nothing moved for too long")]
    Idle,
    /// A later request of a connection is refused.
    #[error(transparent)]
    Request(#[from] RequestError),
    /// The sandbox's budget is spent.
    #[error(transparent)]
    Budget(#[from] BudgetSpent),
}

/// One direction of a connection.
pub(super) struct Direction<'a> {
    pub(super) way: Way,
    pub(super) traffic: &'a Traffic,
    /// Whose budget and pace count.
    pub(super) gate: &'a Gate,
    /// How long nothing may move, in either direction.
    pub(super) idle: Duration,
}

/// Moves one direction until its sender ends it. With `requests`, what is moved are requests
/// that are held to their host.
pub(super) async fn pump(
    from: &mut (impl AsyncRead + Unpin),
    to: &mut (impl AsyncWrite + Unpin),
    direction: &Direction<'_>,
    mut requests: Option<&mut Requests>,
) -> Result<(), RelayError> {
    let Direction { way, traffic, gate, idle } = *direction;
    let mut piece = vec![0; PIECE];
    let mut onward = Vec::new();
    loop {
        let before = traffic.mark();
        let read = match timeout(idle, from.read(&mut piece)).await {
            Ok(read) => read?,
            Err(_) if traffic.mark() == before => return Err(RelayError::Idle),
            Err(_) => continue,
        };
        if read == 0 {
            return Ok(());
        }
        let (bytes, refused) = match requests.as_deref_mut() {
            None => (&piece[..read], None),
            Some(requests) => {
                onward.clear();
                let refused = requests.push(&piece[..read], &mut onward, &|| gate.take_request()).err();
                (&onward[..], refused)
            }
        };
        let allowed = traffic.take_some(way, bytes.len(), gate.policy().budget()).await?;
        write(to, &bytes[..allowed], direction).await?;
        if allowed < bytes.len() {
            return Err(BudgetSpent.into());
        }
        if let Some(error) = refused {
            return Err(error.into());
        }
    }
}

/// Writes all of it, to a reader that takes some from time to time.
async fn write(
    to: &mut (impl AsyncWrite + Unpin),
    mut bytes: &[u8],
    direction: &Direction<'_>,
) -> Result<(), RelayError> {
    let Direction { way, traffic, idle, .. } = *direction;
    while !bytes.is_empty() {
        let before = traffic.mark();
        match timeout(idle, to.write(bytes)).await {
            Ok(written) => {
                let written = written?;
                if written == 0 {
                    return Err(io::Error::from(io::ErrorKind::WriteZero).into());
                }
                traffic.moved(way, written);
                bytes = &bytes[written..];
            }
            Err(_) if traffic.mark() == before => return Err(RelayError::Idle),
            Err(_) => {}
        }
    }
    loop {
        let before = traffic.mark();
        match timeout(idle, to.flush()).await {
            Ok(flushed) => return Ok(flushed?),
            Err(_) if traffic.mark() == before => return Err(RelayError::Idle),
            Err(_) => {}
        }
    }
}
