//! Readers that must miss nothing: the program waits for them as it would for a full pipe. Pure; who stalls for too
//! long is let go by the job that waits.

use std::collections::BTreeMap;

/// Where each such reader is: bytes of both streams before its position.
#[derive(Debug, Default)]
pub(super) struct Holds {
    next: u64,
    positions: BTreeMap<u64, u64>,
}

impl Holds {
    /// A reader at a position.
    pub(super) fn enter(&mut self, position: u64) -> u64 {
        let id = self.next;
        self.next += 1;
        self.positions.insert(id, position);
        id
    }

    /// A reader has come this far; nothing for one that was let go.
    pub(super) fn moved(&mut self, id: u64, position: u64) {
        if let Some(at) = self.positions.get_mut(&id) {
            *at = position;
        }
    }

    /// A reader has gone.
    pub(super) fn leave(&mut self, id: u64) {
        self.positions.remove(&id);
    }

    /// Where the slowest is.
    pub(super) fn slowest(&self) -> Option<u64> {
        self.positions.values().copied().min()
    }

    /// Lets go of whoever is at this position or before it.
    pub(super) fn release(&mut self, position: u64) {
        self.positions.retain(|_, at| *at > position);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_slowest_counts_until_it_moves_leaves_or_is_let_go() {
        let mut holds = Holds::default();
        assert_eq!(holds.slowest(), None);
        let (first, second, third) = (holds.enter(0), holds.enter(5), holds.enter(9));
        assert_eq!(holds.slowest(), Some(0));
        holds.moved(first, 7);
        assert_eq!(holds.slowest(), Some(5));
        holds.leave(second);
        assert_eq!(holds.slowest(), Some(7));
        holds.release(7);
        holds.moved(first, 8);
        assert_eq!(holds.slowest(), Some(9), "who was let go does not come back");
        holds.leave(third);
        assert_eq!(holds.slowest(), None);
    }
}
