//! Lists the contexts of a sandbox.

use super::context::ContextView;
use crate::service::caller::{Caller, Scope};
use crate::service::error::ServiceError;
use crate::service::registry::Service;

impl Service {
    /// The contexts of a sandbox, oldest first.
    ///
    /// # Errors
    /// See [`ServiceError`].
    pub fn contexts(&self, caller: &Caller, sandbox: &str) -> Result<Vec<ContextView>, ServiceError> {
        caller.require(Scope::Exec)?;
        let sandbox = self.alive(caller, sandbox)?;
        let mut inner = sandbox.lock();
        sandbox.check_running(&inner)?;
        inner.contexts.views()
    }
}
