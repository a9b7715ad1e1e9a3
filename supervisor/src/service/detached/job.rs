//! One detached execution: what is known of it, and the task that reads its program to the end.
//!
//! The task alone holds the execution; who looks at the job sees what the task has published. It stands still with its
//! sandbox: what it is owed by the agent is owed later by as long as a pause took.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, SystemTime};

use tokio::sync::{Notify, OwnedSemaphorePermit, oneshot, watch};
use tokio::time::{Instant, sleep, timeout_at};

use super::hold::Holds;
use super::jobs::Cut;
use super::tail::{TAIL_BYTES, Tail};
use crate::agent::{Event, Execution, Finished, Outcome, Output, SpillPaths};
use crate::service::call::Call;
use crate::service::error::{ErrorKind, ServiceError};
use crate::service::execute::Executed;
use crate::service::id::ExecutionId;
use crate::service::idempotency::Keyed as _;
use crate::service::lifetime::Lifetime;
use crate::service::live::LiveInput;
use crate::service::program::ExecuteSpec;
use crate::service::sandbox::Sandbox;

/// How long a program waits for a reader that must miss nothing and reads nothing.
const STALLED: Duration = Duration::from_secs(60);

/// How a job ended.
pub(super) type Verdict = Result<Executed, Arc<ServiceError>>;

/// One detached execution.
#[derive(Debug)]
pub(in crate::service) struct Job {
    pub(super) id: ExecutionId,
    pub(super) pid: u32,
    /// The agent's name for it.
    pub(super) number: u64,
    /// Where its output is kept while it runs.
    spilled: SpillPaths,
    pub(super) terminal: bool,
    pub(super) tag: Option<String>,
    /// It is the server's own.
    pub(super) hidden: bool,
    pub(super) spec: Arc<ExecuteSpec>,
    subject: String,
    at: SystemTime,
    started: Instant,
    /// Its standard input, until it is ended; locked by whoever writes.
    pub(super) input: tokio::sync::Mutex<Option<LiveInput>>,
    progress: Mutex<Progress>,
    /// Changed with the progress.
    news: watch::Sender<()>,
    /// A reader that must miss nothing has read, or gone.
    room: Notify,
}

/// How far a job is.
#[derive(Debug, Default)]
pub(super) struct Progress {
    pub tail: Tail,
    /// Readers that must miss nothing.
    pub holds: Holds,
    /// How it ended.
    pub verdict: Option<Verdict>,
    /// Its input can be written to.
    pub takes_input: bool,
    took: Duration,
}

/// Where a job is in its life.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum JobState {
    /// Its program runs, or is frozen with its sandbox.
    Running,
    /// The program ended so.
    Ended(Outcome),
    /// It was lost for this reason.
    Failed(ErrorKind),
}

/// A detached execution as its tenant sees it at one moment.
#[derive(Debug, Clone, PartialEq)]
pub struct JobView {
    /// Its name.
    pub execution: ExecutionId,
    /// What its caller calls it.
    pub tag: Option<String>,
    /// What was asked for.
    pub spec: Arc<ExecuteSpec>,
    /// Its process id in the sandbox.
    pub pid: u32,
    /// The program's first words.
    pub subject: String,
    /// When it was started.
    pub at: SystemTime,
    /// From its start to its end, or to now.
    pub took: Duration,
    /// Where it is in its life.
    pub state: JobState,
    /// Bytes of standard output.
    pub stdout_bytes: u64,
    /// Bytes of standard error.
    pub stderr_bytes: u64,
    /// Its input can be written to.
    pub takes_input: bool,
    /// It has a terminal.
    pub terminal: bool,
    /// Where in the sandbox its output is.
    pub spilled: SpillPaths,
}

/// A program that was started, for [`Job::start`].
pub(super) struct Started {
    pub id: ExecutionId,
    pub execution: Execution,
    pub call: Call,
    pub subject: String,
    pub spec: Arc<ExecuteSpec>,
    pub terminal: bool,
    pub tag: Option<String>,
    pub hidden: bool,
    /// Its place among those that run.
    pub place: OwnedSemaphorePermit,
}

impl Job {
    /// Takes over a program that was started. Who looks on from the beginning is made by `watch`, before anything is
    /// read. What is sent ends the job with its sandbox.
    pub(super) fn start<T>(
        started: Started,
        lifetime: &mut Lifetime,
        watch: impl FnOnce(&Arc<Self>) -> T,
    ) -> (Arc<Self>, T, oneshot::Sender<Cut>) {
        let Started { id, mut execution, mut call, subject, spec, terminal, tag, hidden, place } = started;
        call.detach(lifetime, !hidden);
        let told = execution.started().clone();
        let input = execution.take_stdin().map(|writer| LiveInput::new(writer, call.fed()));
        let progress = Progress { takes_input: input.is_some(), ..Progress::default() };
        let job = Arc::new(Self {
            id,
            pid: told.pid,
            number: told.execution,
            spilled: told.spilled,
            terminal,
            tag,
            hidden,
            spec,
            subject,
            at: SystemTime::now(),
            started: Instant::now(),
            input: tokio::sync::Mutex::new(input),
            progress: Mutex::new(progress),
            news: watch::channel(()).0,
            room: Notify::new(),
        });
        let watcher = watch(&job);
        let (cut, ended) = oneshot::channel();
        tokio::spawn(Arc::clone(&job).run(execution, call, place, ended));
        (job, watcher, cut)
    }

    async fn run(
        self: Arc<Self>,
        execution: Execution,
        mut call: Call,
        place: OwnedSemaphorePermit,
        ended: oneshot::Receiver<Cut>,
    ) {
        let sandbox = Arc::clone(call.sandbox());
        let result = self.read_to_end(execution, &mut call, ended).await;
        // Who hears of the end finds it in the timeline, and the place free.
        let verdict = match result {
            Ok(finished) => Ok(call.ended(self.id, finished)),
            Err(error) => {
                let failed: Result<Executed, _> = Err(error);
                call.done(&failed);
                failed.map_err(Arc::new)
            }
        };
        drop(place);
        {
            let mut progress = self.progress();
            progress.took = self.started.elapsed();
            progress.takes_input = false;
            progress.verdict = Some(verdict);
        }
        sandbox.lock().jobs.settle(&self);
        self.tell();
    }

    /// Reads to the program's end, or the sandbox's.
    async fn read_to_end(
        &self,
        mut execution: Execution,
        call: &mut Call,
        mut ended: oneshot::Receiver<Cut>,
    ) -> Result<Finished, ServiceError> {
        let sandbox: Arc<Sandbox> = Arc::clone(call.sandbox());
        let mut frozen = sandbox.frozen();
        let mut printed: u64 = 0;
        loop {
            let since = *frozen.borrow_and_update();
            let turned = async {
                // The sandbox, which is held here, has the other end.
                let _ = frozen.wait_for(|now| now.is_some() != since.is_some()).await;
            };
            // An agent that stands still has nothing to say and is not asked for signs of life.
            let event = async {
                match since {
                    Some(_) => std::future::pending().await,
                    None => {
                        self.room().await;
                        call.wait(execution.next()).await
                    }
                }
            };
            let event = tokio::select! {
                biased;
                end = &mut ended => return Err(match end {
                    Ok(cut) => cut.error(),
                    Err(_) => sandbox.over(&sandbox.lock(), true),
                }),
                () = turned => {
                    if let Some(since) = since {
                        execution.postpone(since.elapsed());
                    }
                    continue;
                }
                event = event => event?,
            };
            match event {
                Some(Event::Output { stream, data }) => {
                    printed = printed.saturating_add(data.len() as u64);
                    call.note(|entry| entry.bytes_out = printed);
                    {
                        let progress = &mut *self.progress();
                        progress.tail.push(stream, &data, progress.holds.slowest());
                    }
                    self.tell();
                }
                Some(Event::Finished(finished)) => return Ok(*finished),
                // Nothing follows the result, and nothing is asked for after it.
                None => return Err(ServiceError::ExecutionEnded),
            }
        }
    }

    /// Waits until those who must miss nothing have read enough for more. Who reads nothing for too long is let go.
    async fn room(&self) {
        loop {
            let read = self.room.notified();
            let printed = self.progress().tail.printed().total();
            let late = printed.saturating_sub(TAIL_BYTES as u64);
            if printed < TAIL_BYTES as u64 || self.progress().holds.slowest().is_none_or(|at| at > late) {
                return;
            }
            tokio::select! {
                () = read => {}
                () = sleep(STALLED) => self.progress().holds.release(late),
            }
        }
    }

    /// Someone that must miss nothing has read, or gone.
    pub(super) fn read(&self) {
        self.room.notify_one();
    }

    pub(super) fn progress(&self) -> MutexGuard<'_, Progress> {
        self.progress.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn tell(&self) {
        self.news.send_replace(());
    }

    /// Changes when there is more to see.
    pub(super) fn news(&self) -> watch::Receiver<()> {
        self.news.subscribe()
    }

    /// Refuses one that has ended.
    pub(super) fn check_runs(&self) -> Result<(), ServiceError> {
        if self.progress().verdict.is_some() { Err(ServiceError::ExecutionEnded) } else { Ok(()) }
    }

    /// Waits until its program has printed something or has ended, at most so long after its start.
    pub(super) async fn first_words(&self, within: Duration) {
        let mut news = self.news();
        let said = async {
            loop {
                {
                    let progress = self.progress();
                    if progress.verdict.is_some() || progress.tail.printed().total() > 0 {
                        return;
                    }
                }
                // The job has the other end.
                if news.changed().await.is_err() {
                    std::future::pending::<()>().await;
                }
            }
        };
        let _ = timeout_at(self.started + within, said).await;
    }

    /// Waits for the end.
    pub(super) async fn ended(&self) -> Verdict {
        let mut news = self.news();
        loop {
            if let Some(verdict) = self.progress().verdict.clone() {
                return verdict;
            }
            // The job has the other end.
            if news.changed().await.is_err() {
                std::future::pending::<()>().await;
            }
        }
    }

    /// What it holds of its output.
    pub(super) fn weight(&self) -> usize {
        let progress = self.progress();
        let result = match &progress.verdict {
            Some(Ok(executed)) => executed.weight(),
            Some(Err(_)) | None => 0,
        };
        progress.tail.weight() + result
    }

    /// Lets go of its output; how it ended stays.
    pub(super) fn forget_output(&self) {
        let mut progress = self.progress();
        progress.tail.shorten(0, None);
        if let Some(Ok(executed)) = &mut progress.verdict {
            let without = |output: &Output| Output {
                text: String::new(),
                truncated: output.total_bytes > 0,
                spilled_path: output.spilled_path.clone(),
                ..*output
            };
            let finished = &executed.finished;
            executed.finished = Arc::new(Finished {
                stdout: without(&finished.stdout),
                stderr: without(&finished.stderr),
                diagnosis: finished.diagnosis.clone(),
                ..**finished
            });
        }
    }

    /// The job as its tenant sees it now.
    pub(super) fn view(&self) -> JobView {
        let progress = self.progress();
        let (state, took) = match &progress.verdict {
            None => (JobState::Running, self.started.elapsed()),
            Some(Ok(executed)) => (JobState::Ended(executed.finished.outcome), progress.took),
            Some(Err(error)) => (JobState::Failed(error.kind()), progress.took),
        };
        let printed = progress.tail.printed();
        JobView {
            execution: self.id,
            tag: self.tag.clone(),
            spec: Arc::clone(&self.spec),
            pid: self.pid,
            subject: self.subject.clone(),
            at: self.at,
            took,
            state,
            stdout_bytes: printed.stdout,
            stderr_bytes: printed.stderr,
            takes_input: progress.takes_input,
            terminal: self.terminal,
            spilled: self.spilled(&progress),
        }
    }

    /// Where in the sandbox its output is: what the agent said at the start while it runs, and its result after that.
    pub(super) fn spilled(&self, progress: &Progress) -> SpillPaths {
        match &progress.verdict {
            None => self.spilled.clone(),
            Some(Ok(executed)) => {
                let Finished { stdout, stderr, .. } = &*executed.finished;
                SpillPaths { stdout: stdout.spilled_path.clone(), stderr: stderr.spilled_path.clone() }
            }
            Some(Err(_)) => SpillPaths::default(),
        }
    }
}
