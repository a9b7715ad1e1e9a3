//! Tells a caller what happens to its sandboxes.

use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;
use std::time::SystemTime;

use tokio::sync::broadcast::{Receiver, error::RecvError};

use super::caller::Caller;
use super::create::check_metadata;
use super::error::ServiceError;
use super::events::{SandboxEvent, SandboxEventKind};
use super::id::SandboxId;
use super::list::matches;
use super::registry::Service;
use super::sandbox::SandboxView;

/// What to tell of.
#[derive(Debug, Clone, Default)]
pub struct WatchQuery {
    /// Only this sandbox; empty means all.
    pub sandbox: String,
    /// Only those whose metadata has all of these pairs.
    pub metadata: BTreeMap<String, String>,
    /// Begin with what is there.
    pub include_existing: bool,
}

/// A caller that watches.
#[derive(Debug)]
pub struct Watch {
    receiver: Receiver<Arc<SandboxEvent>>,
    first: VecDeque<SandboxEvent>,
    tenant: Option<String>,
    sandbox: Option<SandboxId>,
    metadata: BTreeMap<String, String>,
}

impl Service {
    /// Starts to watch.
    ///
    /// # Errors
    /// When the query makes no sense or names a sandbox that is none of the caller's.
    pub async fn watch(&self, caller: &Caller, query: WatchQuery) -> Result<Watch, ServiceError> {
        check_metadata(&query.metadata)?;
        // First listened, then looked: nothing falls between.
        let receiver = self.events().listen();
        let sandbox = match query.sandbox.as_str() {
            "" => None,
            id => Some(self.find(caller, id, true)?.view().await.id),
        };
        let tenant = (!caller.scopes.admin).then(|| caller.tenant.clone());
        let mut watch = Watch { receiver, first: VecDeque::new(), tenant, sandbox, metadata: query.metadata };
        if query.include_existing {
            let gone = watch.sandbox.is_some();
            for found in self.all(caller, gone) {
                let sandbox = found.view().await;
                if watch.wants(&sandbox) {
                    let at = SystemTime::now();
                    watch.first.push_back(SandboxEvent { kind: SandboxEventKind::Existing, at, sandbox });
                }
            }
        }
        Ok(watch)
    }
}

impl Watch {
    fn wants(&self, sandbox: &SandboxView) -> bool {
        self.tenant.as_ref().is_none_or(|tenant| *tenant == sandbox.tenant)
            && self.sandbox.as_ref().is_none_or(|id| *id == sandbox.id)
            && matches(&sandbox.metadata, &self.metadata)
    }

    /// The next event; `None` when the service is gone.
    ///
    /// # Errors
    /// When events were missed: list and watch again.
    pub async fn next(&mut self) -> Result<Option<SandboxEvent>, ServiceError> {
        if let Some(event) = self.first.pop_front() {
            return Ok(Some(event));
        }
        loop {
            match self.receiver.recv().await {
                // The last who looks at it need not copy it.
                Ok(event) if self.wants(&event.sandbox) => return Ok(Some(Arc::unwrap_or_clone(event))),
                Ok(_) => {}
                Err(RecvError::Lagged(_)) => return Err(ServiceError::Lagged),
                Err(RecvError::Closed) => return Ok(None),
            }
        }
    }
}
