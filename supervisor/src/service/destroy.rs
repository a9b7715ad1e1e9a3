//! Ends a sandbox because its owner, or who runs the host, wants it.

use super::caller::{Caller, Scope};
use super::error::ServiceError;
use super::registry::{Found, Service};
use super::sandbox::{EndReason, SandboxView};

impl Service {
    /// Ends a sandbox and returns when nothing of it is left. One that has ended already is fine.
    ///
    /// # Errors
    /// See [`ServiceError`].
    pub async fn destroy(&self, caller: &Caller, sandbox: &str) -> Result<SandboxView, ServiceError> {
        caller.require(Scope::Create)?;
        match self.find(caller, sandbox, true)? {
            Found::Alive(sandbox) => {
                sandbox.want_end(EndReason::Destroyed, "it was destroyed");
                sandbox.ended().await;
                Ok(sandbox.view())
            }
            Found::Gone(gone) => Ok(gone.view.clone()),
        }
    }
}
