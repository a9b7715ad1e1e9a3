//! Reaches a detached execution from beside its output: signals, and the size of its terminal.

use crate::agent::TerminalSize;
use crate::service::call::Call;
use crate::service::caller::Caller;
use crate::service::error::ServiceError;
use crate::service::live::{PROMPT, signal_number};
use crate::service::registry::Service;

impl Service {
    /// Sends a signal to the program's first process, or to all of them.
    ///
    /// # Errors
    /// See [`ServiceError`].
    pub async fn signal_detached(
        &self,
        caller: &Caller,
        sandbox: &str,
        execution: &str,
        signal: u32,
        everyone: bool,
    ) -> Result<(), ServiceError> {
        let (sandbox, job) = self.job(caller, sandbox, execution)?;
        let signal = signal_number(signal)?;
        job.check_runs()?;
        let call =
            Call::begin(self, sandbox.clone(), &caller.origin, "signal", &format!("{} {signal}", job.id))?;
        let sent = call.wait(sandbox.agent().signal(job.number, signal, everyone, PROMPT)).await;
        call.done(&sent);
        sent
    }

    /// Changes the size of the program's terminal.
    ///
    /// # Errors
    /// See [`ServiceError`].
    pub async fn resize_detached(
        &self,
        caller: &Caller,
        sandbox: &str,
        execution: &str,
        size: TerminalSize,
    ) -> Result<(), ServiceError> {
        let (sandbox, job) = self.job(caller, sandbox, execution)?;
        if !job.terminal {
            return Err(ServiceError::invalid("the program has no terminal"));
        }
        job.check_runs()?;
        // A window that is drawn larger has many sizes on the way.
        let call = Call::begin(self, sandbox.clone(), &caller.origin, "resize", &job.id.to_string())?;
        let call = call.unremembered();
        let resized = call.wait(sandbox.agent().resize(job.number, size, PROMPT)).await;
        call.done(&resized);
        resized
    }
}
