//! Removes a context.

use super::driver;
use crate::service::caller::{Caller, Scope};
use crate::service::error::ServiceError;
use crate::service::registry::Service;

impl Service {
    /// Removes a context; a run that is under way in it ends with an error.
    ///
    /// # Errors
    /// See [`ServiceError`].
    pub async fn remove_context(
        &self,
        caller: &Caller,
        sandbox: &str,
        context: &str,
    ) -> Result<(), ServiceError> {
        caller.require(Scope::Exec)?;
        let alive = self.alive(caller, sandbox)?;
        alive.check_running(&alive.lock())?;
        let context = alive.lock().contexts.remove(context)?;
        context.set_removed();
        driver::kill((self, caller, sandbox), context.take_program()).await
    }
}
