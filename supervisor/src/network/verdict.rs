//! What the guest is told about a connection, as the first word on its stream.

use std::time::Duration;

use bytes::Bytes;
use rekindle_protocol::frame;
use rekindle_protocol::wire::{self, egress_verdict::Verdict};
use tokio::io::AsyncWrite;
use tokio::time::timeout;

use super::denial::Denial;

/// How long a client may take to say a whole ClientHello or the head of a request, and the guest to take a word.
pub(super) const FIRST_WORDS: Duration = Duration::from_secs(10);

/// The guest is gone.
pub(super) struct Gone;

/// Tells the guest what is decided.
pub(super) async fn tell(to: &mut (impl AsyncWrite + Unpin), verdict: Verdict) -> Result<(), Gone> {
    let verdict = wire::EgressVerdict { verdict: Some(verdict) };
    match timeout(FIRST_WORDS, frame::write(to, &verdict)).await {
        Ok(Ok(())) => Ok(()),
        _ => Err(Gone),
    }
}

/// A denial as the guest is told it, with what its client is sent.
pub(super) fn denied(denial: &Denial, reply: Vec<u8>) -> Verdict {
    Verdict::Denied(wire::EgressDenied {
        reason: denial.reason.as_str().to_owned(),
        message: denial.message(),
        reply: Bytes::from(reply),
        record: denial.json(),
    })
}
