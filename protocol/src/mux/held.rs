//! What the host holds of the streams that a guest has opened: bytes that have come and nobody has read yet, and bytes
//! that wait to be sent.
//!
//! A guest opens as many streams as it likes and fills them, and the multiplexer bounds only each by itself: a window for
//! what comes, a queue for what goes, and neither counts what an allocation costs. Here all of a session is counted
//! together. Too much that is unread ends the session; an agent that is what it should be does not get there. Too much
//! that waits makes writers wait: [`Stream`](super::Stream) asks, and the byte stream tells what has gone.
//!
//! What the host opens itself is not counted here: of these streams there are as many as it likes.

use std::collections::{HashMap, VecDeque};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll, Waker};

use crate::limits::{MAX_QUEUED_BYTES, MAX_UNREAD_BYTES};

/// What a body takes beside its bytes: an allocation, its entries in two queues, and what both have to spare.
pub(super) const BODY: usize = 96;

/// Counts for one session. Clones count together.
#[derive(Debug, Clone, Default)]
pub(super) struct Held(Arc<Mutex<State>>);

#[derive(Debug, Default)]
struct State {
    streams: HashMap<u32, Unread>,
    /// All that is unread, with what it takes.
    unread: usize,
    /// The part of it that nobody will read, and that the multiplexer lets go when it gets to it.
    forsaken: usize,
    /// The part of that which was there before the multiplexer began to look.
    leaving: usize,
    queued: usize,
    /// Writers that wait, by their streams.
    waiting: HashMap<u32, Waker>,
    /// The session is over, and nobody has to wait for it.
    over: bool,
}

/// What is unread of one stream.
#[derive(Debug, Default)]
struct Unread {
    /// The bytes of each body.
    bodies: VecDeque<usize>,
    cost: usize,
}

impl Held {
    fn lock(&self) -> MutexGuard<'_, State> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// A stream was opened.
    pub(super) fn opened(&self, stream: u32) {
        self.lock().streams.entry(stream).or_default();
    }

    /// A body has come; false where it is too much.
    pub(super) fn came(&self, stream: u32, bytes: usize) -> bool {
        let cost = BODY.saturating_add(bytes);
        let mut state = self.lock();
        state.unread = state.unread.saturating_add(cost);
        match state.streams.get_mut(&stream) {
            Some(unread) => {
                unread.bodies.push_back(bytes);
                unread.cost = unread.cost.saturating_add(cost);
            }
            // It may be one that the multiplexer has not let go yet.
            None => state.forsaken = state.forsaken.saturating_add(cost),
        }
        state.unread <= MAX_UNREAD_BYTES
    }

    /// So many bytes were read.
    pub(super) fn read(&self, stream: u32, bytes: usize) {
        let mut state = self.lock();
        let Some(unread) = state.streams.get_mut(&stream) else { return };
        let (before, mut rest) = (unread.cost, bytes);
        while let Some(body) = unread.bodies.front_mut() {
            let taken = rest.min(*body);
            // It has its allocation until its last byte is read.
            if taken < *body {
                *body -= taken;
                unread.cost -= taken;
                break;
            }
            rest -= taken;
            unread.cost -= BODY + taken;
            unread.bodies.pop_front();
        }
        let less = before - unread.cost;
        state.unread -= less;
    }

    /// Nobody reads or writes a stream any more.
    pub(super) fn dropped(&self, stream: u32) {
        let mut state = self.lock();
        state.waiting.remove(&stream);
        if let Some(unread) = state.streams.remove(&stream) {
            state.forsaken += unread.cost;
        }
    }

    /// The multiplexer begins to look at what there is to do.
    pub(super) fn begin(&self) {
        let mut state = self.lock();
        state.leaving = state.forsaken;
    }

    /// It has done all of it: what was dropped before is gone.
    pub(super) fn settled(&self) {
        let mut state = self.lock();
        let gone = std::mem::take(&mut state.leaving);
        state.forsaken -= gone;
        state.unread -= gone;
    }

    /// Waits while too much waits to be sent.
    pub(super) fn poll_room(&self, stream: u32, cx: &Context<'_>) -> Poll<()> {
        let mut state = self.lock();
        if state.queued < MAX_QUEUED_BYTES || state.over {
            return Poll::Ready(());
        }
        state.waiting.insert(stream, cx.waker().clone());
        Poll::Pending
    }

    /// So many bytes wait to be sent.
    pub(super) fn queued(&self, bytes: usize) {
        self.lock().queued += bytes;
    }

    /// So many bytes go out.
    pub(super) fn sent(&self, bytes: usize) {
        let mut state = self.lock();
        state.queued = state.queued.saturating_sub(bytes);
        if state.queued < MAX_QUEUED_BYTES && !state.waiting.is_empty() {
            let waiting = std::mem::take(&mut state.waiting);
            drop(state);
            waiting.into_values().for_each(Waker::wake);
        }
    }

    /// The session is over: whoever waits is told by their stream.
    pub(super) fn over(&self) {
        let mut state = self.lock();
        state.over = true;
        let waiting = std::mem::take(&mut state.waiting);
        drop(state);
        waiting.into_values().for_each(Waker::wake);
    }
}

#[cfg(test)]
mod tests;
