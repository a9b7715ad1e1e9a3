//! A SHA-256 of what was transferred, made on the host for its callers.

use std::{fmt, io};

use bytes::Bytes;
use serde::{Serialize, Serializer};
use sha2::{Digest as _, Sha256};
use tokio::sync::mpsc;
use tokio::task::JoinHandle;

/// Pieces that may wait to be summed up.
const BACKLOG: usize = 8;

/// The SHA-256 of a transfer.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
pub struct Digest(pub [u8; 32]);

impl fmt::Display for Digest {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.iter().try_for_each(|byte| write!(f, "{byte:02x}"))
    }
}

impl fmt::Debug for Digest {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

impl Serialize for Digest {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

/// A digest in the making, beside the transfer: the channel does not wait for it where a second processor is free.
#[derive(Debug, Default)]
pub(super) struct Summing {
    /// Of the first piece, which is summed up at once: that takes less time than to tell another task.
    first: Option<Sha256>,
    /// The task that sums up all that follows.
    beside: Option<(mpsc::Sender<Bytes>, JoinHandle<Sha256>)>,
}

impl Summing {
    /// Adds the next piece, and waits while too many are waiting.
    pub(super) async fn add(&mut self, piece: &Bytes) {
        let (pieces, _) = match (&mut self.beside, self.first.take()) {
            (Some(beside), _) => beside,
            (None, None) => {
                self.first = Some(Sha256::new_with_prefix(piece));
                return;
            }
            (beside @ None, Some(first)) => beside.insert(sum_up(first)),
        };
        // The task ends before its sender only with a panic, which `finish` tells.
        let _ = pieces.send(piece.clone()).await;
    }

    /// The digest of all that was added.
    ///
    /// # Errors
    /// When the task was ended from outside.
    pub(super) async fn finish(self) -> io::Result<Digest> {
        let hasher = match self.beside {
            Some((pieces, sum)) => {
                drop(pieces);
                sum.await?
            }
            None => self.first.unwrap_or_default(),
        };
        Ok(Digest(hasher.finalize().into()))
    }
}

/// Starts the task; it ends when its sender is dropped.
fn sum_up(mut hasher: Sha256) -> (mpsc::Sender<Bytes>, JoinHandle<Sha256>) {
    let (pieces, mut waiting) = mpsc::channel::<Bytes>(BACKLOG);
    let sum = tokio::spawn(async move {
        while let Some(piece) = waiting.recv().await {
            hasher.update(&piece);
        }
        hasher
    });
    (pieces, sum)
}

#[cfg(test)]
mod tests {
    //! Pieces of every size and number have the digest of the whole.

    use super::*;

    #[tokio::test]
    async fn it_is_the_digest_of_all_pieces_in_their_order() {
        let content: Vec<u8> = (0..100_000u32).map(|number| (number * 7 % 251) as u8).collect();
        for (length, piece) in
            [(0, 1), (1, 1), (1000, 1000), (1001, 1000), (100_000, 100_000), (100_000, 1000)]
        {
            let content = Bytes::copy_from_slice(&content[..length]);
            let mut summing = Summing::default();
            for start in (0..length).step_by(piece) {
                summing.add(&content.slice(start..length.min(start + piece))).await;
            }
            let digest = summing.finish().await.expect("nothing ends it");
            assert_eq!(digest.0[..], Sha256::digest(&content)[..], "{length} in pieces of {piece}");
        }
    }
}
