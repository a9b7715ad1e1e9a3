//! A queue that is fair to tenants: they take turns, and within one the first comes first.
//!
//! Pure. It keeps the line; who in it is served next, and who may go past whom, is the policy's to say.

use std::collections::VecDeque;

/// Items of several tenants.
#[derive(Debug)]
pub(super) struct FairQueue<T> {
    /// Never empty inside; the first one's turn it is.
    tenants: VecDeque<(String, VecDeque<T>)>,
    len: usize,
}

impl<T> Default for FairQueue<T> {
    fn default() -> Self {
        Self { tenants: VecDeque::new(), len: 0 }
    }
}

impl<T> FairQueue<T> {
    pub(super) fn len(&self) -> usize {
        self.len
    }

    pub(super) fn push(&mut self, tenant: &str, item: T) {
        self.len += 1;
        match self.tenants.iter_mut().find(|(name, _)| name == tenant) {
            Some((_, items)) => items.push_back(item),
            None => self.tenants.push_back((tenant.to_owned(), VecDeque::from([item]))),
        }
    }

    /// How many a tenant has in it.
    pub(super) fn of(&self, tenant: &str) -> usize {
        self.tenants.iter().find(|(name, _)| name == tenant).map_or(0, |(_, items)| items.len())
    }

    /// Each tenant's first item, in the order of turns.
    pub(super) fn fronts(&self) -> impl Iterator<Item = &T> {
        self.tenants.iter().filter_map(|(_, items)| items.front())
    }

    /// The same, to be changed.
    pub(super) fn fronts_mut(&mut self) -> impl Iterator<Item = &mut T> {
        self.tenants.iter_mut().filter_map(|(_, items)| items.front_mut())
    }

    /// Everything in it, in no particular order.
    pub(super) fn iter(&self) -> impl Iterator<Item = &T> {
        self.tenants.iter().flat_map(|(_, items)| items)
    }

    /// Takes the first item of the tenant whose turn comes after `turn` others; the tenant goes to the end of the
    /// line.
    pub(super) fn take(&mut self, turn: usize) -> Option<T> {
        let (tenant, mut items) = self.tenants.remove(turn)?;
        let item = items.pop_front();
        self.len -= usize::from(item.is_some());
        if !items.is_empty() {
            self.tenants.push_back((tenant, items));
        }
        item
    }

    /// Takes out one item, wherever it is.
    pub(super) fn remove(&mut self, which: impl Fn(&T) -> bool) -> Option<T> {
        let found = self.tenants.iter().enumerate().find_map(|(tenant, (_, items))| {
            items.iter().position(&which).map(|position| (tenant, position))
        });
        let (tenant, position) = found?;
        let items = &mut self.tenants.get_mut(tenant)?.1;
        let item = items.remove(position);
        if items.is_empty() {
            self.tenants.remove(tenant);
        }
        self.len -= usize::from(item.is_some());
        item
    }
}

#[cfg(test)]
mod tests {
    //! Turns, order and withdrawal.

    use super::*;

    fn drained(mut queue: FairQueue<u32>) -> Vec<u32> {
        std::iter::from_fn(|| queue.take(0)).collect()
    }

    #[test]
    fn tenants_take_turns_and_keep_their_order() {
        let mut queue = FairQueue::default();
        for (tenant, item) in [("a", 1), ("a", 2), ("a", 3), ("b", 10), ("c", 20), ("b", 11)] {
            queue.push(tenant, item);
        }
        assert_eq!(queue.len(), 6);
        assert_eq!(queue.fronts().collect::<Vec<_>>(), [&1, &10, &20]);
        assert_eq!([queue.of("a"), queue.of("b"), queue.of("c"), queue.of("d")], [3, 2, 1, 0]);
        assert_eq!(drained(queue), [1, 10, 20, 2, 11, 3]);
    }

    #[test]
    fn who_is_served_out_of_turn_has_had_its_turn() {
        let mut queue = FairQueue::default();
        for (tenant, item) in [("a", 1), ("b", 10), ("b", 11), ("c", 20)] {
            queue.push(tenant, item);
        }
        assert_eq!(queue.take(1), Some(10));
        assert_eq!(queue.take(3), None);
        assert_eq!(queue.len(), 3);
        assert_eq!(drained(queue), [1, 20, 11]);
    }

    #[test]
    fn one_that_gives_up_leaves_the_others_where_they_were() {
        let mut queue = FairQueue::default();
        for (tenant, item) in [("a", 1), ("b", 10), ("b", 11), ("c", 20)] {
            queue.push(tenant, item);
        }
        assert_eq!(queue.remove(|item| *item == 10), Some(10));
        assert_eq!(queue.remove(|item| *item == 10), None);
        assert_eq!(queue.remove(|item| *item == 1), Some(1));
        assert_eq!(queue.len(), 2);
        assert_eq!(drained(queue), [11, 20]);
    }
}
