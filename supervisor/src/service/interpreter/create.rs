//! Makes a context and starts its program.

use super::context::ContextView;
use super::contexts::HOME;
use super::driver::Driver;
use super::language::CodeLanguage;
use crate::agent::GuestUser;
use crate::service::caller::{Caller, Scope};
use crate::service::error::{ErrorKind, ServiceError};
use crate::service::registry::Service;

impl Service {
    /// Makes a context whose code begins in `cwd`, or in the user's home. Where the sandbox's user may not enter that
    /// directory and the caller may be root, the context is root's, for as long as it lives.
    ///
    /// # Errors
    /// See [`ServiceError`]; there is no context then.
    pub async fn create_context(
        &self,
        caller: &Caller,
        sandbox: &str,
        language: CodeLanguage,
        cwd: Option<&str>,
    ) -> Result<ContextView, ServiceError> {
        caller.require(Scope::Exec)?;
        let alive = self.alive(caller, sandbox)?;
        let cwd = cwd.filter(|cwd| !cwd.is_empty()).unwrap_or(HOME);
        let context = alive.lock().contexts.enter(language, cwd.to_owned(), false)?;
        // Whoever gives up now has no name for it.
        let forget = Undo(Some(|| drop(alive.lock().contexts.remove(&context.view.id))));
        let mut slot = context.slot.lock().await;
        let start = || Driver::start((self, caller, sandbox), &context);
        slot.driver = Some(match start().await {
            Err(error)
                if error.kind() == ErrorKind::PermissionDenied
                    && alive.check_user(caller, GuestUser::Root).is_ok() =>
            {
                context.set_root();
                start().await?
            }
            started => started?,
        });
        forget.keep();
        Ok(context.view.clone())
    }
}

/// Does something when it is dropped, unless it is kept.
struct Undo<F: FnMut()>(Option<F>);

impl<F: FnMut()> Undo<F> {
    fn keep(mut self) {
        self.0 = None;
    }
}

impl<F: FnMut()> Drop for Undo<F> {
    fn drop(&mut self) {
        if let Some(undo) = &mut self.0 {
            undo();
        }
    }
}
