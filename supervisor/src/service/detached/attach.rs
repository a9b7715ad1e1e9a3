//! Attaches to a detached execution: what it has printed, what it prints, and how it ended. Who attaches changes
//! nothing about it.

use std::sync::Arc;

use bytes::Bytes;
use tokio::sync::watch;

use super::job::Job;
use super::tail::{Counts, Next};
use crate::agent::OutputStream;
use crate::service::caller::Caller;
use crate::service::error::ServiceError;
use crate::service::execute::Executed;
use crate::service::id::ExecutionId;
use crate::service::registry::Service;

/// What someone attached is told.
#[derive(Debug)]
pub enum AttachEvent {
    /// So much was printed before this point and is no longer in memory.
    Missed {
        /// Bytes of standard output.
        stdout: u64,
        /// Bytes of standard error.
        stderr: u64,
    },
    /// It printed.
    Output {
        /// Where.
        stream: OutputStream,
        /// What.
        data: Bytes,
    },
    /// It ended.
    Finished(Executed),
}

/// A view of a detached execution. Dropping it leaves the program as it is.
#[derive(Debug)]
pub struct Attachment {
    job: Arc<Job>,
    position: Counts,
    news: watch::Receiver<()>,
    over: bool,
}

impl Service {
    /// Attaches to a detached execution: from its beginning, or from now on.
    ///
    /// # Errors
    /// See [`ServiceError`].
    pub fn attach(
        &self,
        caller: &Caller,
        sandbox: &str,
        execution: &str,
        from_now: bool,
    ) -> Result<Attachment, ServiceError> {
        let (_, job) = self.job(caller, sandbox, execution)?;
        let position = if from_now { job.progress().tail.printed() } else { Counts::default() };
        let news = job.news();
        Ok(Attachment { job, position, news, over: false })
    }
}

impl Attachment {
    /// The execution's name.
    #[must_use]
    pub fn id(&self) -> ExecutionId {
        self.job.id
    }

    /// Its process id in the sandbox.
    #[must_use]
    pub fn pid(&self) -> u32 {
        self.job.pid
    }

    /// The next event; `None` after the last. Can be abandoned and called again without losing anything.
    ///
    /// # Errors
    /// See [`ServiceError`]; nothing follows an error.
    pub async fn next(&mut self) -> Result<Option<AttachEvent>, ServiceError> {
        loop {
            if self.over {
                return Ok(None);
            }
            {
                let progress = self.job.progress();
                match progress.tail.next(&mut self.position) {
                    Some(Next::Missed(Counts { stdout, stderr })) => {
                        return Ok(Some(AttachEvent::Missed { stdout, stderr }));
                    }
                    Some(Next::Piece(stream, data)) => {
                        return Ok(Some(AttachEvent::Output { stream, data }));
                    }
                    None => {}
                }
                if let Some(verdict) = progress.verdict.clone() {
                    self.over = true;
                    return match verdict {
                        Ok(executed) => Ok(Some(AttachEvent::Finished(executed))),
                        Err(error) => Err(ServiceError::Shared(error)),
                    };
                }
            }
            // The job, which is held here, has the other end.
            self.over = self.news.changed().await.is_err();
        }
    }
}
