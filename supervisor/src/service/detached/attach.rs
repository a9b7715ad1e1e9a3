//! Attaches to a detached execution: what it has printed, what it prints, and how it ended. Who attaches changes
//! nothing about it.

use std::sync::Arc;

use bytes::Bytes;
use tokio::sync::watch;

use super::job::Job;
use super::tail::{Counts, Next};
use crate::agent::{OutputStream, SpillPaths};
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
    /// The program waits for it to read.
    hold: Option<Hold>,
    over: bool,
}

/// Keeps the program from printing more than its reader has room for.
#[derive(Debug)]
struct Hold {
    job: Arc<Job>,
    id: u64,
}

impl Drop for Hold {
    fn drop(&mut self) {
        self.job.progress().holds.leave(self.id);
        self.job.read();
    }
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
        Ok(Attachment::at(job, position))
    }
}

impl Attachment {
    fn at(job: Arc<Job>, position: Counts) -> Self {
        let news = job.news();
        Self { job, position, news, hold: None, over: false }
    }

    /// To a job that has printed nothing yet, from its beginning.
    pub(super) fn from_start(job: Arc<Job>) -> Self {
        Self::at(job, Counts::default())
    }

    /// Has the program wait for this reader as it would for a full pipe, so that nothing is missed from here on. A
    /// reader that stalls for too long is let go: the program goes on, and it is told what it missed.
    #[must_use]
    pub fn held(mut self) -> Self {
        let id = self.job.progress().holds.enter(self.position.total());
        self.hold = Some(Hold { job: Arc::clone(&self.job), id });
        self
    }

    /// Has the program wait for this reader from here on, or no longer.
    pub(in crate::service) fn set_held(&mut self, held: bool) {
        let job = &self.job;
        self.hold = held.then(|| {
            let id = job.progress().holds.enter(self.position.total());
            Hold { job: Arc::clone(job), id }
        });
    }

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

    /// Where in the sandbox all of its output is: what is missed here can be read there.
    #[must_use]
    pub fn spilled(&self) -> SpillPaths {
        self.job.spilled(&self.job.progress())
    }

    /// It has a terminal.
    #[must_use]
    pub fn has_terminal(&self) -> bool {
        self.job.terminal
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
                let mut progress = self.job.progress();
                let next = progress.tail.next(&mut self.position);
                if let Some(hold) = self.hold.as_ref().filter(|_| next.is_some()) {
                    progress.holds.moved(hold.id, self.position.total());
                    self.job.read();
                }
                match next {
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
