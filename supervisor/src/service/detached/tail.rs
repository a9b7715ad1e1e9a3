//! The end of what a program printed, in bounded memory, and where a reader is in it. Pure.
//!
//! Bytes are copied in: a piece as it arrives may hold on to a buffer much larger than itself.

use std::collections::VecDeque;

use bytes::Bytes;

use crate::agent::OutputStream;

/// Bytes that are kept.
pub(super) const TAIL_BYTES: usize = 64 * 1024;
/// What each run of bytes of one stream counts besides them.
const RUN: usize = size_of::<Run>();
/// Bytes handed out at once.
const PIECE: usize = 64 * 1024;

/// The last output of a program, both streams in the order in which they came.
#[derive(Debug, Default)]
pub(super) struct Tail {
    bytes: VecDeque<u8>,
    runs: VecDeque<Run>,
    printed: Counts,
    dropped: Counts,
}

/// Consecutive bytes of one stream.
#[derive(Debug, Clone, Copy)]
struct Run {
    stream: OutputStream,
    length: usize,
}

/// Bytes of each stream. As a position: those before it.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(super) struct Counts {
    pub stdout: u64,
    pub stderr: u64,
}

/// What a reader gets next.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Next {
    /// So much is no longer here.
    Missed(Counts),
    /// The next bytes of a stream.
    Piece(OutputStream, Bytes),
}

impl Counts {
    fn of(&mut self, stream: OutputStream) -> &mut u64 {
        match stream {
            OutputStream::Stdout => &mut self.stdout,
            OutputStream::Stderr => &mut self.stderr,
        }
    }

    pub(super) fn total(self) -> u64 {
        self.stdout.saturating_add(self.stderr)
    }
}

impl Tail {
    /// Adds what was printed; the oldest makes room, but nothing from the position `held` on.
    pub(super) fn push(&mut self, stream: OutputStream, data: &[u8], held: Option<u64>) {
        if data.is_empty() {
            return;
        }
        self.bytes.extend(data);
        *self.printed.of(stream) += data.len() as u64;
        match self.runs.back_mut() {
            Some(run) if run.stream == stream => run.length += data.len(),
            _ => self.runs.push_back(Run { stream, length: data.len() }),
        }
        self.shorten(TAIL_BYTES, held);
    }

    /// Drops the oldest until no more than `most` is kept, but nothing from the position `held` on.
    pub(super) fn shorten(&mut self, most: usize, held: Option<u64>) {
        loop {
            let may_go = held.map_or(u64::MAX, |held| held.saturating_sub(self.dropped.total()));
            let over = self.weight().saturating_sub(most).min(usize::try_from(may_go).unwrap_or(usize::MAX));
            let Some(run) = self.runs.front_mut().filter(|_| over > 0) else { break };
            let gone = over.min(run.length);
            run.length -= gone;
            *self.dropped.of(run.stream) += gone as u64;
            self.bytes.drain(..gone);
            if run.length == 0 {
                self.runs.pop_front();
            }
        }
        if most == 0 {
            self.bytes.shrink_to_fit();
            self.runs.shrink_to_fit();
        }
    }

    /// The memory that it holds.
    pub(super) fn weight(&self) -> usize {
        self.bytes.len() + self.runs.len() * RUN
    }

    /// All that was ever printed.
    pub(super) fn printed(&self) -> Counts {
        self.printed
    }

    /// What a reader at `position` gets next, and moves it there; nothing when it has seen all.
    pub(super) fn next(&self, position: &mut Counts) -> Option<Next> {
        if position.total() < self.dropped.total() {
            let missed = Counts {
                stdout: self.dropped.stdout.saturating_sub(position.stdout),
                stderr: self.dropped.stderr.saturating_sub(position.stderr),
            };
            *position = self.dropped;
            return Some(Next::Missed(missed));
        }
        let mut before = usize::try_from(position.total() - self.dropped.total()).unwrap_or(usize::MAX);
        let mut start = before.min(self.bytes.len());
        for run in &self.runs {
            if before >= run.length {
                before -= run.length;
                continue;
            }
            let end = start + (run.length - before).min(PIECE);
            let mut piece = Vec::with_capacity(end - start);
            let (head, rest) = self.bytes.as_slices();
            if start < head.len() {
                piece.extend_from_slice(&head[start..end.min(head.len())]);
                start = end.min(head.len());
            }
            if start < end {
                piece.extend_from_slice(&rest[start - head.len()..end - head.len()]);
            }
            *position.of(run.stream) += piece.len() as u64;
            return Some(Next::Piece(run.stream, piece.into()));
        }
        None
    }
}

#[cfg(test)]
mod tests;
