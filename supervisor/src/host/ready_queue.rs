//! Things made ahead: at hand for whoever starts something, made anew in a lull.
//!
//! ```text
//! thread of the owner: fill ──▶ stock ──▶ take: starts
//! ```
//!
//! Right after one was taken a monitor is starting, and on a host with few processors would have to share them with
//! whoever makes the next. Used for the namespace sets of `process`.

use std::io;
use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

/// How many are kept: as many starts at once need not wait.
const KEPT: usize = 4;
/// How long none must have been taken before more are made.
const LULL: Duration = Duration::from_secs(1);

/// Things that wait to be taken.
#[derive(Debug)]
pub(crate) struct ReadyQueue<T> {
    kept: usize,
    state: Mutex<State<T>>,
    changed: Condvar,
}

#[derive(Debug)]
struct State<T> {
    things: Vec<T>,
    /// Whether making one is of use: not after a failure, until somebody asks again.
    wanted: bool,
    /// Starts that wait for one.
    waiting: usize,
    /// Why the last one could not be made, for one of those that wait.
    failed: Option<io::Error>,
    closed: bool,
}

impl<T> ReadyQueue<T> {
    /// An empty one.
    pub(crate) const fn new() -> Self {
        let state = State { things: Vec::new(), wanted: true, waiting: 0, failed: None, closed: false };
        Self { kept: KEPT, state: Mutex::new(state), changed: Condvar::new() }
    }

    /// The same with nothing kept: one is made when somebody waits for it.
    pub(crate) fn on_demand(self) -> Self {
        Self { kept: 0, ..self }
    }

    /// Makes what is missing until the stock is closed.
    pub(crate) fn fill(&self, mut make: impl FnMut() -> io::Result<T>) {
        while self.wait_for_need() {
            self.put(make());
        }
    }

    /// Ends `fill`, and lets go of what is there.
    #[cfg(test)]
    pub(crate) fn close(&self) {
        let mut state = self.lock();
        state.closed = true;
        let rest = std::mem::take(&mut state.things);
        drop(state);
        self.changed.notify_all();
        drop(rest);
    }

    /// Takes one, waiting until there is one.
    pub(crate) fn take(&self) -> io::Result<T> {
        let mut state = self.lock();
        state.waiting += 1;
        state.wanted = true;
        self.changed.notify_all();
        let taken = loop {
            if let Some(thing) = state.things.pop() {
                break Ok(thing);
            }
            if let Some(error) = state.failed.take() {
                // The others that wait have not heard anything yet.
                state.wanted = state.waiting > 1;
                break Err(error);
            }
            state = self.changed.wait(state).unwrap_or_else(PoisonError::into_inner);
        };
        state.waiting -= 1;
        drop(state);
        self.changed.notify_all();
        taken
    }

    /// Returns when one more should be made, or with `false` when no more will be needed.
    fn wait_for_need(&self) -> bool {
        let mut state = self.lock();
        loop {
            if state.closed {
                return false;
            }
            if !self.lacks_one(&state) {
                state = self.changed.wait(state).unwrap_or_else(PoisonError::into_inner);
                continue;
            }
            // Nothing starts without one.
            if state.things.is_empty() {
                return true;
            }
            // Whoever takes one begins a start, and the lull anew.
            let (now, lull) = self.changed.wait_timeout(state, LULL).unwrap_or_else(PoisonError::into_inner);
            state = now;
            if lull.timed_out() && !state.closed {
                return true;
            }
        }
    }

    /// Whether one more is of use: for the stock, or for somebody who waits.
    fn lacks_one(&self, state: &State<T>) -> bool {
        state.wanted && state.things.len() < self.kept.max(state.waiting.min(1))
    }

    fn put(&self, made: io::Result<T>) {
        let mut state = self.lock();
        match made {
            Ok(_) if state.closed => {}
            Ok(thing) => {
                state.things.push(thing);
                // An error nobody has taken yet is no longer true.
                state.failed = None;
            }
            Err(error) => {
                state.wanted = false;
                state.failed = (state.waiting > 0).then_some(error);
            }
        }
        drop(state);
        self.changed.notify_all();
    }

    fn lock(&self) -> MutexGuard<'_, State<T>> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests;
