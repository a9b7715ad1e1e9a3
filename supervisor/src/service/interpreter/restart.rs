//! Has a context begin anew.

use super::driver;
use crate::service::caller::{Caller, Scope};
use crate::service::error::ServiceError;
use crate::service::registry::Service;

impl Service {
    /// Forgets what was defined in a context; a run that is under way in it ends with an error. Its program starts
    /// again with the next run.
    ///
    /// # Errors
    /// See [`ServiceError`].
    pub async fn restart_context(
        &self,
        caller: &Caller,
        sandbox: &str,
        context: &str,
    ) -> Result<(), ServiceError> {
        caller.require(Scope::Exec)?;
        let alive = self.alive(caller, sandbox)?;
        alive.check_running(&alive.lock())?;
        let context = alive.lock().contexts.named(context)?;
        driver::kill((self, caller, sandbox), context.take_program()).await
    }
}
