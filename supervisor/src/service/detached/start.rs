//! Starts a program that outlives its caller.

use super::job::{Job, JobView, Started};
use crate::agent::TerminalSize;
use crate::service::call::Call;
use crate::service::caller::{Caller, Scope};
use crate::service::error::ServiceError;
use crate::service::program::{ExecuteSpec, Input};
use crate::service::registry::Service;
use crate::service::timeline::subject;

impl Service {
    /// Starts a program and returns once it runs. Dropping the future before that leaves nothing.
    ///
    /// # Errors
    /// See [`ServiceError`].
    pub async fn start_detached(
        &self,
        caller: &Caller,
        sandbox: &str,
        spec: &ExecuteSpec,
        input: Input,
        terminal: Option<TerminalSize>,
    ) -> Result<JobView, ServiceError> {
        caller.require(Scope::Exec)?;
        let sandbox = self.alive(caller, sandbox)?;
        let mut request = spec.detached_request(self.config(), &input, terminal)?;
        let place = sandbox.lock().jobs.place()?;
        let mut call = Call::begin(self, sandbox.clone(), "execute_detached", &spec.about())?;
        let id = sandbox.next_execution();
        call.execution(id);
        request.label = id.0;
        let execution = match call.wait(sandbox.vm.agent().execute(request)).await {
            Ok(execution) => execution,
            Err(error) => {
                let failed = Err(error);
                call.done(&failed);
                return failed;
            }
        };
        // In one step: an end of the sandbox finds it, or comes before it.
        let mut inner = sandbox.lock();
        if let Err(error) = sandbox.check_running(&inner) {
            drop(inner);
            let failed = Err(error);
            call.done(&failed);
            return failed;
        }
        let started = Started {
            id,
            execution,
            call,
            subject: subject(&spec.about()),
            terminal: terminal.is_some(),
            place,
        };
        let (job, cut) = Job::start(started, &mut inner.lifetime);
        inner.jobs.enter(job.clone(), cut);
        drop(inner);
        sandbox.wake();
        Ok(job.view())
    }
}
