//! Signals that ask a command to end. Listened for only by commands with something to put back first; the
//! others are ended by the kernel.

use tokio::signal::unix::{SignalKind, signal};

/// What a shell adds a signal's number to.
pub const SIGNAL_BASE: u8 = 128;

/// Completes with the number of the first signal that asks for an end. `keyboard` says whether the
/// keyboard's is one of them.
pub async fn interrupted(keyboard: bool) -> u8 {
    let (Ok(mut interrupt), Ok(mut terminate), Ok(mut hangup), Ok(mut quit)) = (
        signal(SignalKind::interrupt()),
        signal(SignalKind::terminate()),
        signal(SignalKind::hangup()),
        signal(SignalKind::quit()),
    ) else {
        return std::future::pending().await;
    };
    tokio::select! {
        _ = interrupt.recv(), if keyboard => 2,
        _ = terminate.recv() => 15,
        _ = hangup.recv() => 1,
        _ = quit.recv() => 3,
    }
}
