//! What happens to sandboxes, told to whoever watches. A watcher that does not keep up is told so, and holds
//! nobody up.

use std::sync::Arc;
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
    /// Another network policy is in force.
    NetworkChanged,
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
    /// Shared: every watcher looks at every event, and only what it wants is copied for it.
    sender: broadcast::Sender<Arc<SandboxEvent>>,
}

impl Events {
    pub(super) fn new() -> Self {
        Self { sender: broadcast::channel(BACKLOG).0 }
    }

    /// Tells; nobody may be there.
    pub(super) fn tell(&self, kind: SandboxEventKind, sandbox: SandboxView) {
        let _ = self.sender.send(Arc::new(SandboxEvent { kind, at: SystemTime::now(), sandbox }));
    }

    pub(super) fn listen(&self) -> broadcast::Receiver<Arc<SandboxEvent>> {
        self.sender.subscribe()
    }
}

#[cfg(test)]
mod tests {
    //! One event, however many watch.

    use std::collections::BTreeMap;
    use std::time::Duration;

    use super::super::create::AtTimeout;
    use super::super::id::SandboxId;
    use super::super::sandbox::{SandboxLimitsView, SandboxState, SandboxUsage, StartView};
    use super::*;
    use crate::pool::StartKind;

    fn view() -> SandboxView {
        SandboxView {
            id: SandboxId::random().expect("random bytes"),
            tenant: "somebody".to_owned(),
            template: "minimal".parse().expect("a name"),
            state: SandboxState::Running,
            end: None,
            created_at: SystemTime::UNIX_EPOCH,
            expires_at: None,
            idle_timeout: None,
            without_memory: false,
            at_timeout: AtTimeout::End,
            metadata: BTreeMap::new(),
            limits: SandboxLimitsView { milli_cpus: 1000, memory_bytes: 1, pids: 1 },
            usage: SandboxUsage::default(),
            start: StartView {
                kind: StartKind::Restored,
                queued: Duration::ZERO,
                stages: Vec::new(),
                total: Duration::ZERO,
            },
            network: "none".to_owned(),
            gateway: Vec::new(),
            gateway_budget: None,
            turns: None,
            result: None,
        }
    }

    #[test]
    fn watchers_look_at_one_event_instead_of_copying_it_each() {
        let events = Events::new();
        let mut watchers: Vec<_> = (0..100).map(|_| events.listen()).collect();
        events.tell(SandboxEventKind::Created, view());
        let seen: Vec<_> = watchers.iter_mut().map(|watcher| watcher.try_recv().expect("told")).collect();
        assert!(seen.iter().all(|event| Arc::ptr_eq(event, &seen[0])), "one event for all");
    }
}
