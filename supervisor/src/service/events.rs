//! What happens to sandboxes, told to whoever watches. A watcher that does not keep up is told so, and holds
//! nobody up.

use std::time::SystemTime;

use tokio::sync::broadcast;

use super::sandbox::SandboxView;

/// Events a slow watcher may be behind.
const BACKLOG: usize = 1024;

/// What can happen to a sandbox.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum SandboxEventKind {
    /// It was there when the watch began.
    Existing,
    /// It was created and answers.
    Created,
    /// It was paused.
    Paused,
    /// It runs again.
    Resumed,
    /// Its timeouts were changed.
    TimeoutChanged,
    /// It has ended.
    Ended,
}

/// Something that happened.
#[derive(Debug, Clone)]
pub struct SandboxEvent {
    /// What.
    pub kind: SandboxEventKind,
    /// When.
    pub at: SystemTime,
    /// The sandbox right after.
    pub sandbox: SandboxView,
}

/// Tells everyone.
#[derive(Debug)]
pub(super) struct Events {
    sender: broadcast::Sender<SandboxEvent>,
}

impl Events {
    pub(super) fn new() -> Self {
        Self { sender: broadcast::channel(BACKLOG).0 }
    }

    /// Tells; nobody may be there.
    pub(super) fn tell(&self, kind: SandboxEventKind, sandbox: SandboxView) {
        let _ = self.sender.send(SandboxEvent { kind, at: SystemTime::now(), sandbox });
    }

    pub(super) fn listen(&self) -> broadcast::Receiver<SandboxEvent> {
        self.sender.subscribe()
    }
}
