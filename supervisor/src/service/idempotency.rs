//! Keys that make a repeated call harmless: the work is done once, everyone who asks gets its one result. Used for
//! the executions of a sandbox and for the sandboxes that a tenant creates.
//!
//! ```text
//! first call ──▶ works ──▶ done: key and result are kept ──▶ key alone ──▶ forgotten
//!                 │  └──▶ failed: everyone who waits is told, the key is free again
//!                 └── the last who waits goes away ──▶ given up, the key is free again
//! ```
//!
//! Results are bounded in bytes, keys in number, and the oldest go first. A key whose result had to go still keeps
//! its work from being done twice: who asks for it is told that the result is no longer kept.

use std::collections::{HashMap, VecDeque};
use std::sync::{Arc, Weak};

use sha2::{Digest as _, Sha256};
use tokio::sync::watch;
use tokio::task::AbortHandle;

use super::error::ServiceError;
use super::execute::Executed;
use super::id::SandboxId;
use super::turns::TurnsLeft;
use crate::agent::{Finished, Output};

/// Longest key.
pub(super) const MAX_KEY: usize = 128;

/// What is remembered under a key.
pub(super) trait Keyed: Clone + Send + Sync + 'static {
    /// Keys that are remembered.
    const REMEMBERED: usize;
    /// Bytes of results that are kept for them.
    const MAX_RESULT_BYTES: usize;

    /// The memory that it holds.
    fn weight(&self) -> usize;
}

impl Keyed for Executed {
    const REMEMBERED: usize = 256;
    /// A result of the largest `output_limit` that is all long characters, or some hundred of the usual size.
    const MAX_RESULT_BYTES: usize = 1 << 20;

    fn weight(&self) -> usize {
        let output = |output: &Output| {
            output.text.capacity() + output.spilled_path.as_ref().map_or(0, |path| path.as_bytes().len())
        };
        let Finished { stdout, stderr, diagnosis, .. } = &*self.finished;
        let subject =
            diagnosis.as_ref().map_or(0, |guess| guess.subject.capacity() + guess.message.capacity());
        let denials = self.network.denials.iter();
        let denials: usize = denials.map(|denial| size_of_val(denial) + denial.host.len()).sum();
        let diagnosis = self.diagnosis.as_ref().map_or(0, |diagnosis| diagnosis.weight());
        let turns = self.turns.as_ref().map_or(0, TurnsLeft::weight);
        size_of::<Finished>() + output(stdout) + output(stderr) + subject + denials + diagnosis + turns
    }
}

impl Keyed for SandboxId {
    const REMEMBERED: usize = 1024;
    const MAX_RESULT_BYTES: usize = 1 << 20;

    fn weight(&self) -> usize {
        size_of::<Self>() + self.as_str().len()
    }
}

/// What tells one request from another.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Fingerprint([u8; 32]);

impl Fingerprint {
    pub(super) fn of<const N: usize>(parts: [&[u8]; N]) -> Self {
        let mut hash = Sha256::new();
        for part in parts {
            // With its length: two parts never look like two others.
            hash.update((part.len() as u64).to_le_bytes());
            hash.update(part);
        }
        Self(hash.finalize().into())
    }
}

type Verdict<T> = Option<Result<T, Arc<ServiceError>>>;

/// The keys of one sandbox, or of one tenant.
#[derive(Debug)]
pub(super) struct Keys<T> {
    entries: HashMap<String, Entry<T>>,
    /// Finished ones, oldest first.
    order: VecDeque<String>,
    /// Of these, how many of the oldest have no result any more.
    without_result: usize,
    /// Bytes of the results of the others.
    result_bytes: usize,
    /// Runs so far: tells a run from another under the same key.
    runs: u64,
}

impl<T> Default for Keys<T> {
    fn default() -> Self {
        Self { entries: HashMap::new(), order: VecDeque::new(), without_result: 0, result_bytes: 0, runs: 0 }
    }
}

#[derive(Debug)]
struct Entry<T> {
    run: u64,
    fingerprint: Fingerprint,
    state: State<T>,
}

#[derive(Debug)]
enum State<T> {
    InFlight {
        verdict: watch::Receiver<Verdict<T>>,
        waiting: Weak<InFlight>,
    },
    Done(T),
    /// It was done, and its result had to make room.
    ResultGone,
}

/// Where a call with a key stands.
pub(super) enum Place<T> {
    /// It is the first: it does the work.
    First(Slot<T>),
    /// It gets what another call gets.
    Later(Waiter<T>),
}

/// The right to do the work of a key.
pub(super) struct Slot<T> {
    key: String,
    run: u64,
    verdict: watch::Sender<Verdict<T>>,
    running: Arc<InFlight>,
}

/// Work that has ended, for [`Keys::settle`].
pub(super) struct Settled<'a, T> {
    key: &'a str,
    run: u64,
    result: &'a Result<T, Arc<ServiceError>>,
}

/// Held by everyone who waits; the last one to go ends the work.
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
pub(super) struct Waiter<T> {
    outcome: Pending<T>,
}

enum Pending<T> {
    Ready(T),
    InFlight { verdict: watch::Receiver<Verdict<T>>, _running: Arc<InFlight>, first: bool },
}

impl<T: Keyed> Keys<T> {
    /// Where a call with this key stands.
    pub(super) fn place(&mut self, key: &str, fingerprint: &Fingerprint) -> Result<Place<T>, ServiceError> {
        if let Some(entry) = self.entries.get(key) {
            let outcome = match &entry.state {
                State::Done(result) => Some(Ok(Pending::Ready(result.clone()))),
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
        if self.entries.len() >= 2 * T::REMEMBERED {
            // Keys of runs that were given up would add up in the hands of a caller that always gives up.
            self.entries.retain(|_, entry| entry.is_of_use());
        }
        self.runs += 1;
        let run = self.runs;
        self.entries.insert(key.to_owned(), Entry { run, fingerprint: fingerprint.clone(), state });
        Ok(Place::First(Slot { key: key.to_owned(), run, verdict: sender, running }))
    }

    /// Remembers how the work of a key ended.
    pub(super) fn settle(&mut self, settled: &Settled<'_, T>) {
        let Settled { key, run, result } = *settled;
        // A run that ended while it was being given up must not speak for the one that took its key.
        if self.entries.get(key).is_none_or(|entry| entry.run != run) {
            return;
        }
        match result {
            Ok(result) => {
                if let Some(entry) = self.entries.get_mut(key) {
                    entry.state = State::Done(result.clone());
                    self.order.push_back(key.to_owned());
                    self.result_bytes += result.weight();
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
        while self.result_bytes > T::MAX_RESULT_BYTES
            && let Some(key) = self.order.get(self.without_result)
        {
            if let Some(entry) = self.entries.get_mut(key)
                && let State::Done(result) = std::mem::replace(&mut entry.state, State::ResultGone)
            {
                self.result_bytes -= result.weight();
            }
            self.without_result += 1;
        }
        while self.order.len() > T::REMEMBERED
            && let Some(oldest) = self.order.pop_front()
        {
            if let Some(Entry { state: State::Done(result), .. }) = self.entries.remove(&oldest) {
                self.result_bytes -= result.weight();
            }
            self.without_result = self.without_result.saturating_sub(1);
        }
    }

    /// Forgets everything.
    pub(super) fn clear(&mut self) {
        *self = Self { runs: self.runs, ..Self::default() };
    }
}

impl<T> Entry<T> {
    fn is_of_use(&self) -> bool {
        match &self.state {
            State::InFlight { waiting, .. } => waiting.strong_count() > 0,
            State::Done(_) | State::ResultGone => true,
        }
    }
}

impl<T: Keyed> Slot<T> {
    /// Does the work in a task of its own, since the caller that came first may leave before others do, and has
    /// `settle` remember how it ended before anyone hears of it.
    pub(super) fn fill(
        self,
        work: impl Future<Output = Result<T, ServiceError>> + Send + 'static,
        settle: impl FnOnce(&Settled<'_, T>) + Send + 'static,
    ) -> Waiter<T> {
        let Self { key, run, verdict, running } = self;
        let receiver = verdict.subscribe();
        let task = tokio::spawn(async move {
            let result = work.await.map_err(Arc::new);
            settle(&Settled { key: &key, run, result: &result });
            verdict.send_replace(Some(result));
        });
        // Set once, right here.
        let _ = running.task.set(task.abort_handle());
        Waiter { outcome: Pending::InFlight { verdict: receiver, _running: running, first: true } }
    }
}

impl<T: Keyed> Waiter<T> {
    /// It is the one whose call does the work.
    pub(super) fn is_first(&self) -> bool {
        matches!(self.outcome, Pending::InFlight { first: true, .. })
    }

    /// The result, whoever did the work.
    pub(super) async fn wait(self) -> Result<T, ServiceError> {
        match self.outcome {
            Pending::Ready(result) => Ok(result),
            Pending::InFlight { mut verdict, _running, .. } => {
                let settled = verdict.wait_for(Option::is_some).await;
                match settled.as_deref() {
                    Ok(Some(Ok(result))) => Ok(result.clone()),
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
