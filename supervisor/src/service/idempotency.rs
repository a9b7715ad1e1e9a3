//! Keys that make a repeated call harmless: the program runs once, everyone who asks gets its one result.
//!
//! ```text
//! first call ──▶ runs ──▶ done: key and result are kept ──▶ key alone ──▶ forgotten
//!                 │  └──▶ failed: everyone who waits is told, the key is free again
//!                 └── the last who waits goes away ──▶ killed, the key is free again
//! ```
//!
//! Results are bounded in bytes, keys in number, and the oldest go first. A key whose result had to go still keeps
//! its program from running twice: who asks for it is told that the result is no longer kept.

use std::collections::{HashMap, VecDeque};
use std::sync::{Arc, Weak};

use bytes::Bytes;
use prost::Message as _;
use sha2::{Digest as _, Sha256};
use tokio::sync::watch;
use tokio::task::AbortHandle;

use super::error::ServiceError;
use super::execute::Executed;
use super::sandbox::Sandbox;
use crate::agent::{ExecuteRequest, Finished, Output};

/// Keys a sandbox remembers.
const REMEMBERED: usize = 256;
/// Bytes of results that a sandbox keeps for them: a result of the largest `output_limit` that is all long
/// characters, or some hundred of the usual size.
const MAX_RESULT_BYTES: usize = 1 << 20;

/// What tells one program from another.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Fingerprint([u8; 32]);

impl Fingerprint {
    pub(super) fn of(request: &ExecuteRequest, stdin: &Bytes) -> Self {
        let mut hash = Sha256::new();
        hash.update(request.encode_to_vec());
        hash.update(stdin);
        Self(hash.finalize().into())
    }
}

type Verdict = Option<Result<Executed, Arc<ServiceError>>>;

/// The keys of one sandbox.
#[derive(Debug, Default)]
pub(super) struct Keys {
    entries: HashMap<String, Entry>,
    /// Finished ones, oldest first.
    order: VecDeque<String>,
    /// Of these, how many of the oldest have no result any more.
    without_result: usize,
    /// Bytes of the results of the others.
    result_bytes: usize,
    /// Runs so far: tells a run from another under the same key.
    runs: u64,
}

#[derive(Debug)]
struct Entry {
    run: u64,
    fingerprint: Fingerprint,
    state: State,
}

#[derive(Debug)]
enum State {
    InFlight {
        verdict: watch::Receiver<Verdict>,
        waiting: Weak<InFlight>,
    },
    Done(Executed),
    /// It was done, and its result had to make room.
    ResultGone,
}

/// Where a call with a key stands.
pub(super) enum Place {
    /// It is the first: it runs the program.
    First(Slot),
    /// It gets what another call gets.
    Later(Waiter),
}

/// The right to run the program of a key.
pub(super) struct Slot {
    key: String,
    run: u64,
    verdict: watch::Sender<Verdict>,
    running: Arc<InFlight>,
}

/// Held by everyone who waits; the last one to go kills the program.
#[derive(Debug, Default)]
struct InFlight {
    task: std::sync::OnceLock<AbortHandle>,
}

impl Drop for InFlight {
    fn drop(&mut self) {
        // Nobody waits. A task that has finished does not mind.
        if let Some(task) = self.task.get() {
            task.abort();
        }
    }
}

/// A call that waits for the result.
pub(super) struct Waiter {
    outcome: Pending,
}

enum Pending {
    Ready(Executed),
    InFlight { verdict: watch::Receiver<Verdict>, _running: Arc<InFlight>, first: bool },
}

impl Keys {
    /// Where a call with this key stands.
    pub(super) fn place(&mut self, key: &str, fingerprint: &Fingerprint) -> Result<Place, ServiceError> {
        if let Some(entry) = self.entries.get(key) {
            let outcome = match &entry.state {
                State::Done(executed) => {
                    Some(Ok(Pending::Ready(Executed { replayed: true, ..executed.clone() })))
                }
                State::ResultGone => Some(Err(ServiceError::ResultGone)),
                State::InFlight { verdict, waiting } => waiting.upgrade().map(|running| {
                    Ok(Pending::InFlight { verdict: verdict.clone(), _running: running, first: false })
                }),
            };
            // Nobody waits for one that was given up: the key is free.
            if let Some(outcome) = outcome {
                if entry.fingerprint != *fingerprint {
                    return Err(ServiceError::KeyReused);
                }
                return outcome.map(|outcome| Place::Later(Waiter { outcome }));
            }
        }
        let (sender, verdict) = watch::channel(None);
        let running = Arc::new(InFlight::default());
        let state = State::InFlight { verdict, waiting: Arc::downgrade(&running) };
        if self.entries.len() >= 2 * REMEMBERED {
            // Keys of runs that were given up would add up in the hands of a caller that always gives up.
            self.entries.retain(|_, entry| entry.is_of_use());
        }
        self.runs += 1;
        let run = self.runs;
        self.entries.insert(key.to_owned(), Entry { run, fingerprint: fingerprint.clone(), state });
        Ok(Place::First(Slot { key: key.to_owned(), run, verdict: sender, running }))
    }

    fn settle(&mut self, key: &str, run: u64, result: &Result<Executed, Arc<ServiceError>>) {
        // A run that ended while it was being given up must not speak for the one that took its key.
        if self.entries.get(key).is_none_or(|entry| entry.run != run) {
            return;
        }
        match result {
            Ok(executed) => {
                if let Some(entry) = self.entries.get_mut(key) {
                    entry.state = State::Done(executed.clone());
                    self.order.push_back(key.to_owned());
                    self.result_bytes += weight(executed);
                }
                self.make_room();
            }
            Err(_) => {
                self.entries.remove(key);
            }
        }
    }

    /// Lets the oldest results go, and forgets the oldest keys.
    fn make_room(&mut self) {
        while self.result_bytes > MAX_RESULT_BYTES
            && let Some(key) = self.order.get(self.without_result)
        {
            if let Some(entry) = self.entries.get_mut(key)
                && let State::Done(executed) = std::mem::replace(&mut entry.state, State::ResultGone)
            {
                self.result_bytes -= weight(&executed);
            }
            self.without_result += 1;
        }
        while self.order.len() > REMEMBERED
            && let Some(oldest) = self.order.pop_front()
        {
            if let Some(Entry { state: State::Done(executed), .. }) = self.entries.remove(&oldest) {
                self.result_bytes -= weight(&executed);
            }
            self.without_result = self.without_result.saturating_sub(1);
        }
    }

    /// Forgets everything.
    pub(super) fn clear(&mut self) {
        self.entries.clear();
        self.order.clear();
        self.without_result = 0;
        self.result_bytes = 0;
    }
}

/// The memory that a result holds.
fn weight(executed: &Executed) -> usize {
    let output = |output: &Output| {
        output.text.capacity() + output.spilled_path.as_ref().map_or(0, |path| path.as_bytes().len())
    };
    let Finished { stdout, stderr, diagnosis, .. } = &*executed.finished;
    let subject = diagnosis.as_ref().map_or(0, |diagnosis| diagnosis.subject.capacity());
    size_of::<Finished>() + output(stdout) + output(stderr) + subject
}

impl Entry {
    fn is_of_use(&self) -> bool {
        match &self.state {
            State::InFlight { waiting, .. } => waiting.strong_count() > 0,
            State::Done(_) | State::ResultGone => true,
        }
    }
}

impl Slot {
    /// Runs the program in a task of its own.
    pub(super) fn fill<F>(self, sandbox: &Arc<Sandbox>, run: impl FnOnce(Arc<Sandbox>) -> F) -> Waiter
    where
        F: Future<Output = Result<Executed, ServiceError>> + Send + 'static,
    {
        let Self { key, run: number, verdict, running } = self;
        let receiver = verdict.subscribe();
        let (owner, work) = (sandbox.clone(), run(sandbox.clone()));
        let task = tokio::spawn(async move {
            let result = work.await.map_err(Arc::new);
            owner.lock().keys.settle(&key, number, &result);
            verdict.send_replace(Some(result));
        });
        // Set once, right here.
        let _ = running.task.set(task.abort_handle());
        Waiter { outcome: Pending::InFlight { verdict: receiver, _running: running, first: true } }
    }
}

impl Waiter {
    /// The result, whoever ran the program.
    pub(super) async fn wait(self) -> Result<Executed, ServiceError> {
        match self.outcome {
            Pending::Ready(executed) => Ok(executed),
            Pending::InFlight { mut verdict, _running, first } => {
                let settled = verdict.wait_for(Option::is_some).await;
                match settled.as_deref() {
                    Ok(Some(Ok(executed))) => Ok(Executed { replayed: !first, ..executed.clone() }),
                    Ok(Some(Err(error))) => Err(ServiceError::Shared(error.clone())),
                    // Only the end of the runtime drops the task while someone waits.
                    _ => Err(ServiceError::ShuttingDown),
                }
            }
        }
    }
}

#[cfg(test)]
mod tests;
