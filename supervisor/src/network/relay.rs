//! Moves the bytes of a connection that was let through, in both directions, through two buffers of fixed size.
//!
//! What one side does not read is not read from the other. An end of one direction is passed on; the other goes on. A
//! connection over which nothing moves is ended.

use std::io;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt};
use tokio::time::timeout;

use super::requests::{RequestError, Requests};

/// Bytes that are moved at once: small, because an answer to an execution may have to wait for one of them.
const PIECE: usize = 16 * 1024;

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
}

/// What moved in one direction.
#[derive(Debug, Default)]
pub(super) struct Moved {
    bytes: AtomicU64,
}

impl Moved {
    pub(super) fn add(&self, bytes: usize) {
        self.bytes.fetch_add(bytes as u64, Ordering::Relaxed);
    }

    pub(super) fn bytes(&self) -> u64 {
        self.bytes.load(Ordering::Relaxed)
    }
}

/// Both directions' counts, by which idleness is told.
#[derive(Debug, Default)]
pub(super) struct Traffic {
    pub(super) up: Moved,
    pub(super) down: Moved,
}

impl Traffic {
    fn sum(&self) -> u64 {
        self.up.bytes().wrapping_add(self.down.bytes())
    }
}

/// Moves one direction until its sender ends it. With `requests`, what is moved are requests
/// that are held to their host.
pub(super) async fn pump(
    from: &mut (impl AsyncRead + Unpin),
    to: &mut (impl AsyncWrite + Unpin),
    moved: &Moved,
    traffic: &Traffic,
    idle: Duration,
    mut requests: Option<&mut Requests>,
) -> Result<(), RelayError> {
    let mut piece = vec![0; PIECE];
    let mut onward = Vec::new();
    loop {
        let before = traffic.sum();
        let read = match timeout(idle, from.read(&mut piece)).await {
            Ok(read) => read?,
            Err(_) if traffic.sum() == before => return Err(RelayError::Idle),
            Err(_) => continue,
        };
        if read == 0 {
            return Ok(());
        }
        let (bytes, refused) = match requests.as_deref_mut() {
            None => (&piece[..read], None),
            Some(requests) => {
                onward.clear();
                let refused = requests.push(&piece[..read], &mut onward).err();
                (&onward[..], refused)
            }
        };
        write(to, bytes, moved, traffic, idle).await?;
        if let Some(error) = refused {
            return Err(error.into());
        }
    }
}

/// Writes all of it, to a reader that takes some from time to time.
async fn write(
    to: &mut (impl AsyncWrite + Unpin),
    mut bytes: &[u8],
    moved: &Moved,
    traffic: &Traffic,
    idle: Duration,
) -> Result<(), RelayError> {
    while !bytes.is_empty() {
        let before = traffic.sum();
        match timeout(idle, to.write(bytes)).await {
            Ok(written) => {
                let written = written?;
                if written == 0 {
                    return Err(io::Error::from(io::ErrorKind::WriteZero).into());
                }
                moved.add(written);
                bytes = &bytes[written..];
            }
            Err(_) if traffic.sum() == before => return Err(RelayError::Idle),
            Err(_) => {}
        }
    }
    to.flush().await?;
    Ok(())
}
