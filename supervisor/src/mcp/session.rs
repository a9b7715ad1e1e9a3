//! The sandboxes that one session over standard input has made. They end with it; sandboxes that were made by anyone else
//! are never among them, whoever uses them here. Each ends as part of the trace and the step that it was made in.

use std::collections::BTreeMap;
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use futures::future::join_all;
use rekindle_api::Status;
use rekindle_api::client::Client;
use rekindle_api::v1::{CreateSandboxRequest, DestroySandboxRequest, Sandbox};
use tokio::sync::RwLock;
use tokio::time::timeout;

/// How long the end waits for sandboxes that are being made, and for all of them to be gone. Their own clocks end what is
/// left then.
const PATIENCE: Duration = Duration::from_secs(20);

/// What a session has made.
#[derive(Debug, Default)]
pub(super) struct Session {
    /// Each with the client of the call that made it, which says what that was part of.
    made: Mutex<BTreeMap<String, Client>>,
    /// Read while a sandbox is being made: the end waits for it. `true` once the session is over.
    over: RwLock<bool>,
}

impl Session {
    /// Makes a sandbox that ends with the session.
    pub(super) async fn create(
        &self,
        client: &mut Client,
        request: CreateSandboxRequest,
    ) -> Result<Sandbox, Status> {
        let over = self.over.read().await;
        if *over {
            return Err(Status::cancelled("the session is over"));
        }
        let sandbox = client.sandboxes.create(request).await?.into_inner();
        self.made.lock().unwrap_or_else(PoisonError::into_inner).insert(sandbox.id.clone(), client.clone());
        Ok(sandbox)
    }

    /// A sandbox has been ended by its user.
    pub(super) fn forget(&self, sandbox: &str) {
        self.made.lock().unwrap_or_else(PoisonError::into_inner).remove(sandbox);
    }

    /// Ends everything that was made and makes nothing more.
    pub(super) async fn end(&self) {
        let ending = async {
            *self.over.write().await = true;
            let made = std::mem::take(&mut *self.made.lock().unwrap_or_else(PoisonError::into_inner));
            join_all(made.into_iter().map(async |(sandbox, mut client)| {
                if let Err(status) = client.sandboxes.destroy(DestroySandboxRequest { sandbox }).await {
                    tracing::warn!(%status, "a sandbox of this session was not ended; its time limit will");
                }
            }))
            .await;
        };
        if timeout(PATIENCE, ending).await.is_err() {
            tracing::warn!("not every sandbox of this session was ended in time; their time limits will");
        }
    }
}
