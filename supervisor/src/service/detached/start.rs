//! Starts a program that outlives its caller.

use std::sync::Arc;

use super::attach::Attachment;
use super::job::{Job, JobView, Started};
use crate::agent::TerminalSize;
use crate::service::call::Call;
use crate::service::caller::{Caller, Scope};
use crate::service::create::check_memory;
use crate::service::error::ServiceError;
use crate::service::program::{ExecuteSpec, Input};
use crate::service::registry::Service;
use crate::service::timeline::subject;
use crate::telemetry::Origin;

/// Longest name a caller gives a program.
const MAX_TAG: usize = 256;

/// A program that is to outlive its caller.
#[derive(Debug, Clone, PartialEq)]
pub struct DetachedSpec {
    /// What to run.
    pub program: ExecuteSpec,
    /// Where its input comes from.
    pub input: Input,
    /// The size of its terminal, where it has one.
    pub terminal: Option<TerminalSize>,
    /// What its caller calls it.
    pub tag: Option<String>,
    /// It is the server's own: nobody lists it, and it keeps its sandbox from nothing while it waits.
    pub hidden: bool,
}

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
        let spec = DetachedSpec { program: spec.clone(), input, terminal, tag: None, hidden: false };
        let (job, ()) = self.start_job(caller, sandbox, spec, |_| ()).await?;
        Ok(job.view())
    }

    /// Starts a program and attaches to it from its beginning, so that nothing it prints is missed
    /// ([`Attachment::held`]). Dropping the future before that leaves nothing; what it returns can be dropped.
    ///
    /// # Errors
    /// See [`ServiceError`].
    pub async fn start_attached(
        &self,
        caller: &Caller,
        sandbox: &str,
        spec: DetachedSpec,
    ) -> Result<Attachment, ServiceError> {
        let attach = |job: &Arc<Job>| Attachment::from_start(Arc::clone(job)).held();
        let (_, attached) = self.start_job(caller, sandbox, spec, attach).await?;
        Ok(attached)
    }

    async fn start_job<T>(
        &self,
        caller: &Caller,
        sandbox: &str,
        spec: DetachedSpec,
        watch: impl FnOnce(&Arc<Job>) -> T,
    ) -> Result<(Arc<Job>, T), ServiceError> {
        caller.require(Scope::Exec)?;
        let sandbox = self.alive(caller, sandbox)?;
        let DetachedSpec { program: spec, input, terminal, tag, hidden } = spec;
        sandbox.check_user(caller, spec.user)?;
        check_memory(spec.memory_bytes, sandbox.facts.limits.memory_bytes)?;
        let mut request = spec.detached_request(self.config(), &input, terminal)?;
        let length = tag.as_deref().map_or(0, str::len);
        ServiceError::bound("the length of the tag", length as u64, MAX_TAG as u64)?;
        let place = sandbox.lock().jobs.place()?;
        let about = tag.clone().filter(|_| hidden).unwrap_or_else(|| spec.about());
        // The server's own programs are nobody's turn, and serve one step after the other.
        let mut call = match hidden {
            true => Call::begin(self, sandbox.clone(), &Origin::default(), "execute_detached", &about)?,
            false => Call::begin_turn(self, sandbox.clone(), &caller.origin, "execute_detached", &about)?,
        };
        let id = sandbox.next_execution();
        call.execution(id);
        request.label = id.0;
        let execution = match call.wait(sandbox.agent().execute(request)).await {
            Ok(execution) => execution,
            Err(error) => {
                let failed = Err(call.not_in_timezone(error, spec.clock.timezone()).await);
                call.not_started(&failed);
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
            subject: subject(&about),
            spec: Arc::new(spec),
            terminal: terminal.is_some(),
            tag,
            hidden,
            place,
        };
        let (job, watcher, cut) = Job::start(started, &mut inner.lifetime, watch);
        inner.jobs.enter(job.clone(), cut);
        drop(inner);
        sandbox.wake();
        Ok((job, watcher))
    }
}
