//! What a call is told that meets a sandbox which takes none, or which is lost under it.

use std::time::{Duration, SystemTime};

use tokio::time::timeout;

use super::{End, EndReason, Inner, Sandbox, SandboxState};
use crate::agent::{AgentError, GuestUser};
use crate::service::caller::Caller;
use crate::service::error::ServiceError;
use crate::vm::Lost;

/// How long a call whose sandbox was lost waits for the keeper's word on why.
const LAST_WORD: Duration = Duration::from_secs(10);

impl Sandbox {
    /// Refuses a sandbox that takes no calls.
    pub(in crate::service) fn check_running(&self, inner: &Inner) -> Result<(), ServiceError> {
        match inner.state {
            SandboxState::Running => Ok(()),
            SandboxState::Paused => Err(ServiceError::Paused),
            SandboxState::Ending | SandboxState::Ended => Err(self.over(inner, false)),
        }
    }

    /// Refuses a sandbox that has ended, or is about to.
    pub(in crate::service) fn check_alive(&self, inner: &Inner) -> Result<(), ServiceError> {
        match self.check_running(inner) {
            Err(ServiceError::Paused) => Ok(()),
            checked => checked,
        }
    }

    /// Refuses a user that this caller may not be in it.
    pub(in crate::service) fn check_user(
        &self,
        caller: &Caller,
        user: GuestUser,
    ) -> Result<(), ServiceError> {
        match user {
            GuestUser::User => Ok(()),
            GuestUser::Root if !caller.root => Err(ServiceError::RootForbidden { by: "this token" }),
            GuestUser::Root if !self.facts.root => {
                Err(ServiceError::RootForbidden { by: "the template, or the token that made the sandbox," })
            }
            GuestUser::Root => Ok(()),
        }
    }

    /// What a failure means: a lost agent or machine is the end of the sandbox, and its keeper says so.
    pub(in crate::service) async fn failed(&self, error: AgentError) -> ServiceError {
        if self.lock().state == SandboxState::Paused {
            // Its machine was stopped, for all who listened without a call.
            return ServiceError::Paused;
        }
        match self.vm().blame(&error).await {
            None => return ServiceError::Agent(error),
            Some(Lost::Agent) => self.want_end(EndReason::AgentLost, error.to_string()),
            // The keeper sees the machine's end itself, with its cause.
            Some(Lost::Vm(_)) => {}
        }
        match timeout(LAST_WORD, self.ended()).await {
            Ok(end) => ServiceError::Ended { end, during: true },
            Err(_) => self.over(&self.lock(), true),
        }
    }

    /// The error of a call that meets a sandbox that has ended, or is about to.
    pub(in crate::service) fn over(&self, inner: &Inner, during: bool) -> ServiceError {
        let end = self.ended.borrow().clone().unwrap_or_else(|| {
            let (reason, message) =
                inner.wanted.clone().unwrap_or((EndReason::VmLost, "the machine is gone".into()));
            End { reason, message, at: SystemTime::now() }
        });
        ServiceError::Ended { end, during }
    }
}
