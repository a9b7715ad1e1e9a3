//! The detached executions of one sandbox: how many may run, and how much is kept of those that have ended.

use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;

use tokio::sync::{OwnedSemaphorePermit, Semaphore, oneshot};

use super::job::Job;
use crate::service::caller::{Caller, Scope};
use crate::service::error::ServiceError;
use crate::service::id::ExecutionId;
use crate::service::registry::Service;
use crate::service::sandbox::{End, Sandbox};

/// Detached programs that may run at once in a sandbox.
const MAX_RUNNING: usize = 32;
/// Jobs that have ended and are remembered.
const MAX_ENDED: usize = 1024;
/// Bytes of output that are kept of them, besides those of the last one.
const MAX_OUTPUT_BYTES: usize = 2 << 20;

/// Why a job ends before its program says so.
#[derive(Debug, Clone)]
pub(in crate::service) enum Cut {
    /// The sandbox has ended.
    Ended(End),
    /// The sandbox was paused without its memory, and with that its programs.
    WithoutMemory,
}

impl Cut {
    pub(super) fn error(self) -> ServiceError {
        match self {
            Self::Ended(end) => ServiceError::Ended { end, during: true },
            Self::WithoutMemory => ServiceError::Paused,
        }
    }
}

/// The jobs of one sandbox.
#[derive(Debug)]
pub(in crate::service) struct Jobs {
    places: Arc<Semaphore>,
    all: BTreeMap<ExecutionId, Arc<Job>>,
    /// Those that run, and what ends each with the sandbox.
    running: BTreeMap<ExecutionId, oneshot::Sender<Cut>>,
    /// Those that have ended, oldest end first.
    ended: VecDeque<Arc<Job>>,
    /// Of these, how many of the oldest have no output any more.
    without_output: usize,
    /// Bytes of output of the others.
    output_bytes: usize,
}

impl Default for Jobs {
    fn default() -> Self {
        Self {
            places: Arc::new(Semaphore::new(MAX_RUNNING)),
            all: BTreeMap::new(),
            running: BTreeMap::new(),
            ended: VecDeque::new(),
            without_output: 0,
            output_bytes: 0,
        }
    }
}

impl Jobs {
    /// A place among those that run.
    pub(super) fn place(&self) -> Result<OwnedSemaphorePermit, ServiceError> {
        let place = Arc::clone(&self.places).try_acquire_owned();
        place.map_err(|_| ServiceError::TooManyDetached { most: MAX_RUNNING })
    }

    /// Enters a job, before it can be settled: whoever enters it holds the lock since it was started.
    pub(super) fn enter(&mut self, job: Arc<Job>, cut: oneshot::Sender<Cut>) {
        self.running.insert(job.id, cut);
        self.all.insert(job.id, job);
    }

    /// Remembers that a job has ended; the oldest make room.
    pub(super) fn settle(&mut self, job: &Arc<Job>) {
        self.running.remove(&job.id);
        if job.hidden {
            self.all.remove(&job.id);
            return;
        }
        self.output_bytes += job.weight();
        self.ended.push_back(Arc::clone(job));
        while self.output_bytes > MAX_OUTPUT_BYTES && self.without_output + 1 < self.ended.len() {
            let Some(oldest) = self.ended.get(self.without_output) else { break };
            self.output_bytes = self.output_bytes.saturating_sub(oldest.weight());
            oldest.forget_output();
            self.without_output += 1;
        }
        while self.ended.len() > MAX_ENDED {
            let Some(oldest) = self.ended.pop_front() else { break };
            match self.without_output.checked_sub(1) {
                Some(less) => self.without_output = less,
                None => self.output_bytes = self.output_bytes.saturating_sub(oldest.weight()),
            }
            self.all.remove(&oldest.id);
        }
    }

    /// Every job that is a caller's, oldest first.
    pub(super) fn all(&self) -> impl Iterator<Item = &Arc<Job>> {
        self.all.values().filter(|job| !job.hidden)
    }
}

impl Sandbox {
    /// Waits for what runs detached to end by itself, for as long as it takes; everything was told to.
    pub(in crate::service) async fn detached_ended(&self) {
        let running: Vec<Arc<Job>> = {
            let jobs = &self.lock().jobs;
            jobs.running.keys().filter_map(|id| jobs.all.get(id)).cloned().collect()
        };
        for job in running {
            let _ = job.ended().await;
        }
    }

    /// Ends what runs detached, with the machine gone. Returns when all of it is in the timeline.
    pub(in crate::service) async fn end_detached(&self, why: &Cut) {
        let running: Vec<Arc<Job>> = {
            let mut inner = self.lock();
            let jobs = &mut inner.jobs;
            for (_, cut) in std::mem::take(&mut jobs.running) {
                let _ = cut.send(why.clone());
            }
            jobs.all.values().cloned().collect()
        };
        for job in running {
            let _ = job.ended().await;
        }
    }
}

impl Service {
    /// A detached execution in a sandbox of the caller's.
    pub(super) fn job(
        &self,
        caller: &Caller,
        sandbox: &str,
        execution: &str,
    ) -> Result<(Arc<Sandbox>, Arc<Job>), ServiceError> {
        caller.require(Scope::Exec)?;
        let sandbox = self.alive(caller, sandbox)?;
        let id: ExecutionId = execution.parse().map_err(|_| ServiceError::UnknownExecution)?;
        let job = sandbox.lock().jobs.all.get(&id).cloned().ok_or(ServiceError::UnknownExecution)?;
        // Who feeds a program of root's is root.
        sandbox.check_user(caller, job.spec.user)?;
        Ok((sandbox, job))
    }
}
